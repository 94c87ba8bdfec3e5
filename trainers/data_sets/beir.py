"""Reader of BEIR folders: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import CORPUS, QRELS, QUERIES, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.location import locate, stamp

VERSION = 1
_ROWS_AT_ONCE = 65_536  # rows become Arrow memory in blocks, so that a large corpus never stands as Python objects
_MAX_RELEVANCE = 2**31 - 1
Row = dict[str, Any]


def inputs(entry: DataSet) -> list[str]:
    """The files read, with sizes and times of change."""
    folder = locate(entry)
    files = [folder / "corpus.jsonl", folder / "queries.jsonl", *_qrels_files(folder)]
    return [stamp(file) for file in files if file.is_file()]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read the folder. Lines that cannot be read are noted in `faults`.

    `metadata.excluded_ids` of a query is read; other metadata is not.

    Raises:
        InputError: there is no such folder, or one of the files is missing.
    """
    folder = locate(entry)
    for name in ("corpus.jsonl", "queries.jsonl"):
        if not (folder / name).is_file():
            faults.add("missing", file=name, key="", message="there is no such file")
    if not _qrels_files(folder):
        faults.add("missing", file="qrels", key="", message="there is no file qrels/SPLIT.tsv")
    faults.raise_if_any()
    return Collection(
        name=entry.name,
        corpus=_table(_json_rows(folder, "corpus.jsonl", _document, faults), CORPUS),
        queries=_table(_json_rows(folder, "queries.jsonl", _query, faults), QUERIES),
        qrels={file.stem: _table(_judgements(file, faults), QRELS) for file in _qrels_files(folder)},
    )


def _qrels_files(folder: Path) -> list[Path]:
    return sorted((folder / "qrels").glob("*.tsv"))


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
    with (folder / name).open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield parse(_json_object(line))
            except ValueError as error:
                faults.add("malformed", file=name, key=f"line {number}", message=str(error))


def _json_object(line: bytes) -> Row:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is expected, not {_shown(value)}")
    return value


def _document(row: Row) -> Row:
    return {"id": _id(row), "title": _text(row, "title", default=""), "text": _text(row, "text")}


def _query(row: Row) -> Row:
    metadata = row.get("metadata") or {}
    excluded = metadata.get("excluded_ids") or [] if isinstance(metadata, dict) else None
    if not isinstance(excluded, list) or not all(isinstance(item, str) for item in excluded):
        raise ValueError(f"'metadata.excluded_ids' must be a list of ids (text), not in {_shown(metadata)}")
    return {"id": _id(row), "text": _text(row, "text"), "excluded_ids": excluded}


def _id(row: Row) -> str:
    found = _text(row, "_id")
    if not found:
        raise ValueError("'_id' is empty")
    return found


def _text(row: Row, key: str, default: str | None = None) -> str:
    value = row.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"'{key}' must be text, not {_shown(value)}" if key in row else f"'{key}' is missing")
    if not _is_unicode(value):
        raise ValueError(f"'{key}' holds half of a surrogate pair: {_shown(value)}")
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _judgements(file: Path, faults: Faults) -> Iterator[Row]:
    name = f"qrels/{file.name}"
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                if fields == [""] or (number == 1 and _is_header(fields)):
                    continue
                yield _judgement(fields)
            except ValueError as error:
                faults.add("malformed", file=name, key=f"line {number}", message=str(error))


def _is_header(fields: list[str]) -> bool:
    """BEIR has a header line; where there is none, the first judgement must not be lost."""
    return len(fields) == 3 and fields[0].lower() in {"query-id", "query_id", "qid"}


def _judgement(fields: list[str]) -> Row:
    if len(fields) != 3 or not all(field.strip() for field in fields):
        raise ValueError(f"query-id, corpus-id and score, separated by tabs, are expected, not {_shown(fields)}")
    query_id, document_id, score = fields
    if not score.strip().isascii() or not score.strip().isdigit() or int(score) > _MAX_RELEVANCE:
        raise ValueError(f"the score must be a whole number, 0 (irrelevant) or higher, not {_shown(score)}")
    return {"query_id": query_id, "document_id": document_id, "relevance": int(score)}


def _shown(value: Any) -> str:
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
