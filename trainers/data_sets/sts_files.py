"""Where scored pairs lie: a folder of TSV files, or a data set repository as the hub has it, fetched or copied."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.faults import Faults
from trainers.data_sets.hub_files import config_of, data_folder, is_hub, problem
from trainers.data_sets.json_lines import is_text, shown
from trainers.data_sets.location import locate

COLUMNS = ("score", "sentence1", "sentence2")
_CARD = "README.md"  # says which files are of which config and split
_ROWS_AT_ONCE = 65_536
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PlacedRow:
    """A row, and where it stands: the file (or split) and the line or row in it."""

    file: str
    key: str
    row: Row


def is_repository(entry: DataSet) -> bool:
    """Whether the source is a data set repository: on the hub, or a copy of one, which has a card and no TSV file."""
    return is_hub(entry) or (not files(entry) and (locate(entry) / _CARD).is_file())


def patterns(entry: DataSet) -> list[str]:
    """The repository's files that the entry's config needs; the config 'default' may have any."""
    config = config_of(entry)
    return ["**"] if config == "default" else [_CARD, f"{config}/*"]


def files(entry: DataSet) -> dict[str, Path]:
    """The TSV files of a folder by split: SPLIT.tsv, or CONFIG-SPLIT.tsv where the entry names a config."""
    prefix = f"{entry.config}-" if entry.config else ""
    found = sorted(locate(entry).glob(f"{prefix}*.tsv"))
    return {file.stem.removeprefix(prefix): file for file in found}


def tsv_splits(entry: DataSet, faults: Faults) -> dict[str, Iterator[PlacedRow]]:
    """The rows of each file. The first line names the columns, in any order; there is no quoting.

    Raises:
        InputError: there is no file.
    """
    found = files(entry)
    if not found:
        pattern = f"{entry.config}-SPLIT.tsv" if entry.config else "SPLIT.tsv"
        faults.add("missing", file="", key="", message=f"there is no file {pattern}")
    faults.raise_if_any()
    return {split: _lines(file, faults) for split, file in found.items()}


def _lines(file: Path, faults: Faults) -> Iterator[PlacedRow]:
    header: list[str] | None = None
    if not is_text(file, file.name, faults):
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                if header is None:
                    header = _header(fields)
                elif fields != [""]:
                    yield PlacedRow(file=file.name, key=f"line {number}", row=_named(header, fields))
            except ValueError as error:
                faults.add("malformed", file=file.name, key=f"line {number}", message=str(error))
                if header is None:
                    return


def _header(fields: list[str]) -> list[str]:
    missing = [name for name in COLUMNS if fields.count(name) != 1]
    if missing:
        raise ValueError(
            f"the first line must name the columns {', '.join(COLUMNS)} once each, separated by tabs; "
            f"{' and '.join(missing)} is not so in {shown(fields)}"
        )
    return fields


def _named(header: list[str], fields: list[str]) -> Row:
    if len(fields) != len(header):
        raise ValueError(f"{len(header)} fields, separated by tabs, are expected, not {len(fields)}")
    return dict(zip(header, fields, strict=True))


def repository_splits(entry: DataSet) -> dict[str, Iterator[PlacedRow]]:
    """The rows of every split of the entry's config.

    Raises:
        InputError: the files are not to be had, there is no such config, or a split lacks a column.
    """
    config, folder = config_of(entry), data_folder(entry, patterns(entry))
    from datasets import load_dataset  # more than half a second, and only repositories need it

    try:
        found = load_dataset(str(folder), config)
    except (OSError, ValueError) as error:  # no such config, no data files, a file of another format
        raise problem(entry, f"config '{config}' cannot be loaded: {str(error).splitlines()[0]}") from error
    for split, data in found.items():
        missing = [name for name in COLUMNS if name not in data.column_names]
        if missing:
            there = ", ".join(data.column_names)
            raise problem(entry, f"split '{split}' has no column {' or '.join(missing)} (it has {there})")
    return {str(s): _rows(str(s), data.select_columns(list(COLUMNS)).data.table) for s, data in found.items()}


def _rows(split: str, table: pa.Table) -> Iterator[PlacedRow]:
    number = 0
    for batch in table.to_batches(_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            number += 1
            yield PlacedRow(file=split, key=f"row {number}", row=row)
