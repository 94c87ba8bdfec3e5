"""Reader of data sets in Tevatron's form: SPLIT.jsonl.gz with queries, their positive and their negative passages.

The hub has such data sets with a loading script, which is not run: its data files are read as they are.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingCollection
from trainers.data_sets.hub_files import config_of, data_folder, inputs_of, problem, remedy
from trainers.data_sets.json_lines import Row, json_objects, shown, text

VERSION = 1
PATTERNS = ["*.jsonl.gz", "*.jsonl"]
_POSITIVES, _NEGATIVES = "positive_passages", "negative_passages"


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    config_of(entry)
    return inputs_of(entry, PATTERNS)


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read all splits. Lines that cannot be read are noted in `faults`.

    Queries without a positive passage, without text, and passages without text are left out and counted; a split in
    which no query is left (files of test queries alone) is none.

    Raises:
        InputError: the files are not to be had.
    """
    folder = data_folder(entry, PATTERNS)
    files = {file.name.split(".")[0]: file for pattern in PATTERNS for file in sorted(folder.glob(pattern))}
    if not files:
        raise problem(entry, f"{folder} has no files SPLIT.jsonl.gz; {remedy(entry, PATTERNS)}")
    growing = GrowingCollection()
    for split, file in files.items():
        for place, row in json_objects(_lines(entry, file), file.name, faults):
            try:
                _add_line(split, row, growing, faults)
            except ValueError as error:
                faults.add("malformed", file=file.name, key=place, message=str(error))
    return growing.finished(entry.name, faults.leave_out)


def _lines(entry: DataSet, file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise problem(entry, f"{file} is damaged or was not fetched whole ({error}); {remedy(entry)}") from error


def _add_line(split: str, row: Row, growing: GrowingCollection, faults: Faults) -> None:
    query_id, query = _id(row, "query_id"), text(row, "query")
    positives, negatives = _passages(row, _POSITIVES), _passages(row, _NEGATIVES)
    with_text = [
        [passage for passage in passages if f"{passage[1]}{passage[2]}".strip()] for passages in (positives, negatives)
    ]
    num_blank = len(positives) + len(negatives) - sum(map(len, with_text))
    faults.leave_out(f"passages of '{split}' without text", num_blank)
    if not query.strip():
        faults.leave_out(f"queries of '{split}' without text")
    elif not with_text[0]:
        faults.leave_out(f"queries of '{split}' without a positive passage")
    else:
        growing.add_query(query, query_id)
        for add, passages in zip((growing.add_pair, growing.add_negative), with_text, strict=True):
            for document_id, title, body in passages:
                add(split, query_id, growing.add_document(title, body, document_id))


def _passages(row: Row, key: str) -> list[tuple[str, str, str]]:
    """Id, title and text of each passage of a list. Raises ValueError."""
    values: Any = [] if row.get(key) is None else row[key]  # files of test queries have none
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError(f"'{key}' must be a list of objects, not {shown(values)}")
    return [(_id(value, "docid"), text(value, "title", default=""), text(value, "text")) for value in values]


def _id(row: Row, key: str) -> str:
    """An id, which some data sets write as a number. Raises ValueError."""
    value = row.get(key)
    found = str(value) if isinstance(value, int) and not isinstance(value, bool) else text(row, key)
    if not found.strip():
        raise ValueError(f"'{key}' is empty")
    return found
