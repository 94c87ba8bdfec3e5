"""Reader of BEIR folders: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

Beyond the layout, negatives/SPLIT.tsv (query-id, corpus-id) may name hard negatives to train with.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import (
    ANSWERED_QUERIES,
    CORPUS,
    NEGATIVES,
    QRELS,
    Collection,
    with_answers_only_if_any,
)
from trainers.data_sets.faults import Faults
from trainers.data_sets.json_lines import Row, is_text, json_objects, shown, text
from trainers.data_sets.location import locate, stamp

VERSION = 2
_ROWS_AT_ONCE = 65_536  # rows become Arrow memory in blocks, so that a large corpus never stands as Python objects
_TEXTS = ("corpus.jsonl", "queries.jsonl")
_MAX_RELEVANCE = 2**31 - 1


def inputs(entry: DataSet) -> list[str]:
    """The files read, with sizes and times of change."""
    folder = locate(entry)
    return [stamp(file) for file in files(folder)]


def files(folder: Path) -> list[Path]:
    """The files of a folder that are read, those that are there."""
    found = [*(folder / name for name in _TEXTS), *_split_files(folder, "qrels"), *_split_files(folder, "negatives")]
    return [file for file in found if file.is_file()]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read the folder. Lines that cannot be read are noted in `faults`.

    `metadata.excluded_ids` and `metadata.answers` of a query are read; other metadata is not.

    Raises:
        InputError: there is no such folder, or one of the files is missing.
    """
    folder = locate(entry)
    missing = [name for name in _TEXTS if not (folder / name).is_file()]
    splits = {file.name for file in _split_files(folder, "qrels")}
    if not splits and len(missing) == len(_TEXTS):
        inside = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
        message = f"it is no folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv (it has {inside})"
        faults.add("missing", file="", key="", message=message)
        faults.raise_if_any()
    for name in missing:
        faults.add("missing", file=name, key="", message="there is no such file")
    if not splits:
        faults.add("missing", file="qrels", key="", message="there is no file qrels/SPLIT.tsv")
    for file in _split_files(folder, "negatives"):
        if file.name not in splits:
            faults.add("missing", file=f"negatives/{file.name}", key="", message=f"there is no file qrels/{file.name}")
    faults.raise_if_any()
    return Collection(
        name=entry.name,
        corpus=_table(_json_rows(folder, "corpus.jsonl", document, faults), CORPUS),
        queries=with_answers_only_if_any(
            _table(_json_rows(folder, "queries.jsonl", query, faults), ANSWERED_QUERIES),
        ),
        qrels={
            file.stem: _table(_tsv_rows(folder, file, _judgement, faults), QRELS)
            for file in _split_files(folder, "qrels")
        },
        negatives={
            file.stem: _table(_tsv_rows(folder, file, _negative, faults), NEGATIVES)
            for file in _split_files(folder, "negatives")
        },
    )


def document(row: Row) -> Row:
    """A line of corpus.jsonl as a row of CORPUS. Raises ValueError."""
    return {"id": _id(row), "title": text(row, "title", default=""), "text": text(row, "text")}


def query(row: Row) -> Row:
    """A line of queries.jsonl as a row of ANSWERED_QUERIES. Raises ValueError."""
    excluded, answers = _from_metadata(row, "excluded_ids", "ids"), _from_metadata(row, "answers", "answers")
    return {"id": _id(row), "text": text(row, "text"), "excluded_ids": excluded, "answers": answers}


def _from_metadata(row: Row, key: str, what: str) -> list[str]:
    metadata = row.get("metadata") or {}
    found = metadata.get(key) or [] if isinstance(metadata, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"'metadata.{key}' must be a list of {what} (text), not in {shown(metadata)}")
    return found


def _split_files(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).glob("*.tsv"))


def _table(rows: Iterator[Row], schema: pa.Schema) -> pa.Table:
    batches, block = [], []
    for row in rows:
        block.append(row)
        if len(block) == _ROWS_AT_ONCE:
            batches.append(pa.RecordBatch.from_pylist(block, schema))
            block.clear()
    batches.append(pa.RecordBatch.from_pylist(block, schema))
    return pa.Table.from_batches(batches, schema)


def _json_rows(folder: Path, name: str, parse: Callable[[Row], Row], faults: Faults) -> Iterator[Row]:
    if not is_text(folder / name, name, faults):
        return
    with (folder / name).open("rb") as lines:
        for place, row in json_objects(lines, name, faults):
            try:
                yield parse(row)
            except ValueError as error:
                faults.add("malformed", file=name, key=place, message=str(error))


def _id(row: Row) -> str:
    found = text(row, "_id")
    if not found:
        raise ValueError("'_id' is empty")
    return found


def _tsv_rows(folder: Path, file: Path, parse: Callable[[list[str]], Row], faults: Faults) -> Iterator[Row]:
    name = file.relative_to(folder).as_posix()
    if not is_text(file, name, faults):
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                if any("\r" in field for field in fields):
                    raise ValueError("a carriage return stands inside the line; lines end with \\n or \\r\\n")
                if fields == [""] or (number == 1 and _is_header(fields)):
                    continue
                if b"\0" in line:
                    raise ValueError("the line holds NUL bytes: the file is damaged")
                yield parse(fields)
            except ValueError as error:
                header = " (a header begins with query-id)" if number == 1 and line.count(b"\t") == 2 else ""
                faults.add("malformed", file=name, key=f"line {number}", message=f"{error}{header}")


def _is_header(fields: list[str]) -> bool:
    """BEIR has a header line; where there is none, the first judgement must not be lost."""
    return fields[0].lower() in {"query-id", "query_id", "qid"}


def _judgement(fields: list[str]) -> Row:
    if len(fields) != 3 or not all(field.strip() for field in fields):
        raise ValueError(f"query-id, corpus-id and score, separated by tabs, are expected, not {shown(fields)}")
    query_id, document_id, score = fields
    if not score.strip().isascii() or not score.strip().isdigit() or int(score) > _MAX_RELEVANCE:
        raise ValueError(f"the score must be a whole number, 0 (irrelevant) or higher, not {shown(score)}")
    return {"query_id": query_id, "document_id": document_id, "relevance": int(score)}


def _negative(fields: list[str]) -> Row:
    if len(fields) != 2 or not all(field.strip() for field in fields):
        raise ValueError(f"query-id and corpus-id, separated by a tab, are expected, not {shown(fields)}")
    return {"query_id": fields[0], "document_id": fields[1]}
