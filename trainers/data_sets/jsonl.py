"""Reader of training pairs in JSON Lines: a query, its positives and, where there are any, its hard negatives.

A line has texts, or ids of texts in the same folder's corpus.jsonl and queries.jsonl, and its keys say which:

    {"query": "...", "positives": ["...", ...], "negatives": ["...", ...]}
    {"query_id": "q1", "positive_ids": ["d1", ...], "negative_ids": ["d2", ...]}

Each of the three may be either, whatever the others are; negatives may be missing, and a key `metadata` is not read.
A folder has one file for each split, SPLIT.jsonl; a source that is itself a file is the split 'train', of texts alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.problems import unknown_name
from trainers.data_sets import beir
from trainers.data_sets.collection import Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingCollection
from trainers.data_sets.json_lines import Row, checked_text, is_text, json_objects, shown, text
from trainers.data_sets.location import locate_file_or_folder, stamp

VERSION = 1
_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
_KEYS = ("query", "query_id", "positives", "positive_ids", "negatives", "negative_ids", "metadata")


def inputs(entry: DataSet) -> list[str]:
    """The files read, with sizes and times of change."""
    place = locate_file_or_folder(entry)
    texts = [place / name for name in (_CORPUS, _QUERIES)]
    return [stamp(file) for file in [*_split_files(place).values(), *texts] if file.is_file()]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read all splits. Lines that cannot be read are noted in `faults`; repeated pairs are left out, and counted.

    Documents and queries given as texts have a hash of their text as id.

    Raises:
        InputError: there is no such file or folder, or no split in it.
    """
    place = locate_file_or_folder(entry)
    growing = GrowingCollection()
    if place.is_dir():
        _add_texts(place, growing, faults)
    files = _split_files(place)
    if not files:
        faults.add("missing", file="", key="", message="there is no file SPLIT.jsonl, such as train.jsonl")
    faults.raise_if_any()
    for split, file in files.items():
        _add_lines(split, file, file.name if place.is_dir() else "", growing, faults)
    return growing.finished(entry.name, faults.leave_out)


def _add_lines(split: str, file: Path, name: str, growing: GrowingCollection, faults: Faults) -> None:
    where = ""
    for where, row in _objects(file, name, faults):
        try:
            _add_line(split, row, growing)
        except ValueError as error:
            faults.add("malformed", file=name, key=where, message=str(error))
    if not where and not _has_lines(file):
        faults.add("missing", file=name, key="", message="there is no pair in it")


def _has_lines(file: Path) -> bool:
    with file.open("rb") as lines:
        return any(line.strip() for line in lines)


def _split_files(place: Path) -> dict[str, Path]:
    if not place.is_dir():
        return {"train": place}
    return {file.stem: file for file in sorted(place.glob("*.jsonl")) if file.name not in (_CORPUS, _QUERIES)}


def _add_texts(folder: Path, growing: GrowingCollection, faults: Faults) -> None:
    """The documents and queries that ids stand for; lines as in the BEIR layout."""
    for name, parse in ((_CORPUS, beir.document), (_QUERIES, beir.query)):
        if not (folder / name).is_file():
            continue
        for where, row in _objects(folder / name, name, faults):
            try:
                _add_text(name, parse(row), growing)
            except ValueError as error:
                faults.add("malformed", file=name, key=where, message=str(error))


def _add_text(name: str, row: Row, growing: GrowingCollection) -> None:
    known = growing.has_document if name == _CORPUS else growing.has_query
    if known(row["id"]):
        raise ValueError(f"id {shown(row['id'])} was there already; ids are unique")
    if name == _CORPUS:
        growing.add_document(row["title"], row["text"], row["id"])
    else:
        growing.add_query(row["text"], row["id"])


def _objects(file: Path, name: str, faults: Faults) -> Iterator[tuple[str, Row]]:
    if not is_text(file, name, faults):
        return
    with file.open("rb") as lines:
        yield from json_objects(lines, name, faults)


def _add_line(split: str, row: Row, growing: GrowingCollection) -> None:
    for key in row:
        if key not in _KEYS:
            raise ValueError(unknown_name("key", key, list(_KEYS)))
    # All is looked at before anything is added: of a faulty line nothing stays.
    query_key = _either(row, "query", "query_id")
    positive_key = _either(row, "positives", "positive_ids")
    negative_key = _either(row, "negatives", "negative_ids", needed=False)
    query, positives = _query(row, query_key, growing), _documents(row, positive_key, growing)
    negatives = _documents(row, negative_key, growing) if negative_key else []
    if not positives:
        raise ValueError(f"'{positive_key}' is empty: a query has a positive")
    query_id = query if query_key == "query_id" else growing.add_query(query)
    for positive in positives:
        document_id = positive if positive_key == "positive_ids" else growing.add_document("", positive)
        growing.add_pair(split, query_id, document_id)
    for negative in negatives:
        document_id = negative if negative_key == "negative_ids" else growing.add_document("", negative)
        growing.add_negative(split, query_id, document_id)


def _either(row: Row, texts_key: str, ids_key: str, *, needed: bool = True) -> str:
    there = [key for key in (texts_key, ids_key) if key in row]
    if len(there) == 2 or (needed and not there):
        raise ValueError(
            f"either '{texts_key}' or '{ids_key}' is expected, and {'both are' if there else 'none is'} there"
        )
    return there[0] if there else ""


def _query(row: Row, key: str, growing: GrowingCollection) -> str:
    found = text(row, key)
    if not found.strip():
        raise ValueError(f"'{key}' is empty")
    if key == "query_id" and not growing.has_query(found):
        raise ValueError(f"'query_id' {shown(found)} is not in {_QUERIES}")
    return found


def _documents(row: Row, key: str, growing: GrowingCollection) -> list[str]:
    values: Any = row[key]
    if not isinstance(values, list):
        raise ValueError(f"'{key}' must be a list, not {shown(values)}")
    for place, value in enumerate(values):
        name = f"{key}[{place}]"
        if not checked_text(value, name).strip():
            raise ValueError(f"'{name}' is empty")
        if key.endswith("_ids") and not growing.has_document(value):
            raise ValueError(f"'{name}' {shown(value)} is not in {_CORPUS}")
    return values
