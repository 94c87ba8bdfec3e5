"""Reader of retrieval collections in the forms that the hub has them: BEIR's, with judgements apart or not, and MTEB's.

A local folder in BEIR's layout is read likewise, and so are judgements in TREC's four columns and topics of two.
Corpus and judgements may lie in other repositories than the queries (`corpus_source`, `qrels_source`).
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.answers import answer_inputs, gold_answers, question_key
from trainers.data_sets.collection import ANSWERED_QUERIES, CORPUS, QRELS, Collection, with_answers_only_if_any
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingTable
from trainers.data_sets.hub_files import at, inputs_of, is_hub
from trainers.data_sets.hub_layout import Role, role_files, role_patterns
from trainers.data_sets.hub_rows import file_rows, first_text, row_id
from trainers.data_sets.json_lines import Row, shown
from trainers.data_sets.location import locate

VERSION = 1
_ID, _TITLE, _TEXT = ("_id", "id", "docid", "doc_id", "pid"), ("title",), ("text", "contents")
_QUERY_ID, _DOCUMENT_ID = ("query-id", "query_id", "qid"), ("corpus-id", "corpus_id", "document_id", "docid")
_GRADE = ("score", "relevance")
_TREC_FIELDS = 4
Answers = Mapping[str, list[str]]


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    found = []
    for source, roles in parts(entry).items():
        part = at(entry, source)
        found += inputs_of(part, () if is_hub(part) else role_patterns(locate(part), entry.config, roles))
    return [*parts(entry), *found, *answer_inputs(entry)]


def parts(entry: DataSet) -> dict[str, tuple[Role, ...]]:
    """Each source that the entry names, and the roles of what is read there."""
    sources: dict[Role, str] = {
        "corpus": entry.corpus_source or entry.source,
        "queries": entry.source,
        "qrels": entry.qrels_source or entry.source,
    }
    return {source: tuple(r for r, of in sources.items() if of == source) for source in sources.values()}


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read corpus, queries and all splits of judgements. Rows that cannot be read are noted in `faults`.

    A negative grade, as some judgements have for what is worse than irrelevant, is read as 0: no measure here tells
    them apart.

    Raises:
        InputError: the files are not to be had.
    """
    of_role = {role: at(entry, source) for source, roles in parts(entry).items() for role in roles}
    answers = gold_answers(entry, faults)
    queries = _table(of_role["queries"], "queries", lambda row: _query(row, answers), ANSWERED_QUERIES, faults)
    return Collection(
        name=entry.name,
        corpus=_table(of_role["corpus"], "corpus", _document, CORPUS, faults),
        queries=with_answers_only_if_any(queries),
        qrels={
            split: _rows_as_table(of_role["qrels"], files, _judgement, QRELS, faults)
            for split, files in role_files(of_role["qrels"], "qrels").items()
        },
    )


def _table(entry: DataSet, role: Role, parse: Callable[[Row], Row], schema: pa.Schema, faults: Faults) -> pa.Table:
    files = [file for of_split in role_files(entry, role).values() for file in of_split]
    return _rows_as_table(entry, files, parse, schema, faults)


def _rows_as_table(
    entry: DataSet, files: list[Path], parse: Callable[[Row], Row], schema: pa.Schema, faults: Faults
) -> pa.Table:
    growing = GrowingTable(schema)
    for file in files:
        for place, row in _rows(entry, file, schema, faults):
            try:
                growing.append(parse(row))
            except ValueError as error:
                faults.add("malformed", file=file.name, key=place, message=str(error))
    return growing.finished()


def _rows(entry: DataSet, file: Path, schema: pa.Schema, faults: Faults) -> Iterator[tuple[str, Row]]:
    if schema is not QRELS:
        return file_rows(entry, file, faults, ("_id", "text"))
    return _judgement_rows(file_rows(entry, file, faults, ("query-id", "corpus-id", "score")))


def _judgement_rows(rows: Iterator[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Judgements; a line of TREC's has four fields between any white space: query, iteration, document, grade."""
    for place, row in rows:
        fields = str(row.get("query-id", "")).split()
        if len(row) == 1 and len(fields) == _TREC_FIELDS:
            yield place, {"query-id": fields[0], "corpus-id": fields[2], "score": fields[3]}
        else:
            yield place, row


def _document(row: Row) -> Row:
    return {"id": row_id(row, _ID), "title": first_text(row, _TITLE, ""), "text": first_text(row, _TEXT)}


def _query(row: Row, answers: Answers) -> Row:
    question = first_text(row, _TEXT)
    metadata: Any = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return {
        "id": row_id(row, _ID),
        "text": question,
        "excluded_ids": _ids(metadata.get("excluded_ids")),
        "answers": answers.get(question_key(question)) or _ids(metadata.get("answers")),
    }


def _ids(value: Any) -> list[str]:
    found = [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"a list of texts is expected in 'metadata', not {shown(value)}")
    return found


def _judgement(row: Row) -> Row:
    grade = next((row[key] for key in _GRADE if row.get(key) is not None), None)
    try:
        whole = int(grade)  # type: ignore[arg-type]
        if isinstance(grade, float) and grade != whole:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise ValueError(f"the score must be a whole number, not {shown(grade)}") from error
    return {
        "query_id": row_id(row, _QUERY_ID),
        "document_id": row_id(row, _DOCUMENT_ID),
        "relevance": max(whole, 0),
    }
