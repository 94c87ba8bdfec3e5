"""Rows of the data files that repositories have: JSON Lines and TSV, packed or not, lists in JSON, and parquet."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.faults import Faults
from trainers.data_sets.hub_files import problem, remedy
from trainers.data_sets.json_lines import Row, json_objects, shown, text

_ROWS_AT_ONCE = 1024


def file_rows(entry: DataSet, file: Path, faults: Faults, columns: Sequence[str] = ()) -> Iterator[tuple[str, Row]]:
    """The rows of a file, each with its place in it. Lines that hold none are noted in `faults`.

    `columns` name the fields of a line in a TSV file without a header.

    Raises:
        InputError: the file is damaged.
    """
    kind = file.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        return _parquet_rows(entry, file)
    if kind == "json":
        return _listed_rows(entry, file)
    if kind == "jsonl":
        return json_objects(_lines(entry, file), file.name, faults)
    return _tsv_rows(_lines(entry, file), file, faults, columns)


def first_text(row: Row, keys: Sequence[str], default: str | None = None) -> str:
    """The first of the fields that is there, as text; a whole number is written out. Raises ValueError."""
    for key in keys:
        if (value := row.get(key)) is not None:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return str(value) if is_number else text(row, key)
    if default is None:
        raise ValueError(f"{' or '.join(repr(key) for key in keys)} is missing (it has {', '.join(row) or 'nothing'})")
    return default


def row_id(row: Row, keys: Sequence[str]) -> str:
    """An id, which is not blank. Raises ValueError."""
    found = first_text(row, keys)
    if not found.strip():
        raise ValueError(f"'{keys[0]}' is empty")
    return found


def listed_texts(row: Row, key: str) -> list[str]:
    """A list of texts; one text is a list of it, and null is none. Raises ValueError."""
    value: Any = row.get(key)
    values = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise ValueError(f"'{key}' must be a list of texts, not {shown(value)}")
    return values


def _lines(entry: DataSet, file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise problem(entry, f"{file} is damaged or was not fetched whole ({error}); {remedy(entry)}") from error


def _listed_rows(entry: DataSet, file: Path) -> Iterator[tuple[str, Row]]:
    """The objects of a file that is one list of them."""
    try:
        rows: Any = json.loads(file.read_bytes())
    except ValueError as error:
        raise problem(entry, f"{file} is not JSON ({error}); {remedy(entry)}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise problem(entry, f"{file} must hold a list of objects, not {shown(rows)}")
    return ((f"item {number}", row) for number, row in enumerate(rows, start=1))


def _tsv_rows(lines: Iterator[bytes], file: Path, faults: Faults, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Fields by column; the first line is a header where it names one of the columns, or where none are given."""
    header = list(columns)
    for number, line in enumerate(lines, start=1):
        try:
            fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
        except UnicodeDecodeError as error:
            faults.add("malformed", file=file.name, key=f"line {number}", message=f"this is not UTF-8: {error.reason}")
            continue
        if number == 1 and (not header or set(fields) & set(header)):
            header = fields
        elif fields != [""]:
            yield f"line {number}", dict(zip(header, fields, strict=False))


def _parquet_rows(entry: DataSet, file: Path) -> Iterator[tuple[str, Row]]:
    try:
        with pq.ParquetFile(file) as opened:
            number = 0
            for batch in opened.iter_batches(_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row
    except (pa.ArrowInvalid, OSError) as error:
        raise problem(entry, f"{file} cannot be read ({error}); {remedy(entry)}") from error
