"""Reader of questions with gold answers and no judgements, over a corpus that lies apart, in Tevatron's form.

Questions: a file CONFIG.jsonl or CONFIG.jsonl.gz with query_id, query and answers. Corpus: corpus.jsonl or
corpus.jsonl.gz with docid, title and text. They are the split 'test', which has no judgement: it can be answered from
what is found, but no ranking of it can be measured.
"""

from collections.abc import Callable

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets import hub_retrieval
from trainers.data_sets.answers import row_answers
from trainers.data_sets.bright import is_beir_folder
from trainers.data_sets.collection import ANSWERED_QUERIES, CORPUS, QRELS, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingTable
from trainers.data_sets.hub_files import at, config_of, data_folder, inputs_of, problem, remedy
from trainers.data_sets.hub_rows import file_rows, first_text, row_id
from trainers.data_sets.json_lines import Row

VERSION = 1
_SPLIT = "test"


def kinds(entry: DataSet) -> dict[str, list[list[str]]]:
    """Each source that the entry names, and of each kind of file read there the names, one of which is enough."""
    questions = {entry.source: [_either(config_of(entry))]}
    corpus = entry.corpus_source or entry.source
    return questions | {corpus: [*questions.get(corpus, []), _either("corpus")]}


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    if is_beir_folder(entry) and entry.corpus_source is None:
        return hub_retrieval.inputs(entry)
    found = {source: [name for names in of_source for name in names] for source, of_source in kinds(entry).items()}
    return [line for source, names in found.items() for line in (source, *inputs_of(at(entry, source), names))]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read corpus and questions. Rows that cannot be read are noted in `faults`; without an answer they are left out.

    A folder in BEIR's layout is read as one.

    Raises:
        InputError: the files are not to be had.
    """
    if is_beir_folder(entry) and entry.corpus_source is None:
        return hub_retrieval.read(entry, faults)

    def question(row: Row) -> Row | None:
        found = {"id": row_id(row, ("query_id", "id")), "text": first_text(row, ("query", "question"))}
        if not (answers := row_answers(row)):
            faults.leave_out("questions without an answer")
            return None
        return found | {"excluded_ids": [], "answers": answers}

    return Collection(
        name=entry.name,
        corpus=_table(at(entry, entry.corpus_source), "corpus", _document, CORPUS, faults),
        queries=_table(entry, config_of(entry), question, ANSWERED_QUERIES, faults),
        qrels={_SPLIT: QRELS.empty_table()},
    )


def _either(stem: str) -> list[str]:
    return [f"{stem}.jsonl", f"{stem}.jsonl.gz"]


def _document(row: Row) -> Row | None:
    return {
        "id": row_id(row, ("docid", "_id", "id")),
        "title": first_text(row, ("title",), ""),
        "text": first_text(row, ("text",)),
    }


def _table(
    entry: DataSet, stem: str, parse: Callable[[Row], Row | None], schema: pa.Schema, faults: Faults
) -> pa.Table:
    folder = data_folder(entry, _either(stem))
    files = [folder / name for name in _either(stem) if (folder / name).is_file()]
    if not files:
        raise problem(entry, f"{folder} has no file {stem}.jsonl.gz; {remedy(entry, _either(stem))}")
    growing = GrowingTable(schema)
    for place, row in file_rows(entry, files[0], faults):
        try:
            if found := parse(row):
                growing.append(found)
        except ValueError as error:
            faults.add("malformed", file=files[0].name, key=place, message=str(error))
    return growing.finished()
