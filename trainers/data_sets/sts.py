"""Reader of scored pairs of texts (STS): a folder of TSV files, or a hub data set, with score, sentence1, sentence2."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.sources import parse_source
from search_spaces.problems import InputError, Problem
from trainers.data_sets.collection import CORPUS, QUERIES, SCORED_QRELS, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.location import locate, stamp

VERSION = 1
COLUMNS = ("score", "sentence1", "sentence2")
_ROWS_AT_ONCE = 65_536
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a pair stands, for messages."""

    file: str
    key: str


def inputs(entry: DataSet) -> list[str]:
    """How scores are read, and the files read with sizes and times of change; a hub data set is pinned already."""
    how = [f"config {entry.config}", f"score range {entry.score_range}"]
    return how if _is_hub(entry) else [*how, *(stamp(file) for file in _files(entry).values())]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read the pairs of all splits; scores become 0 to 1 by the entry's `score_range`.

    A folder has one file a split: SPLIT.tsv, or CONFIG-SPLIT.tsv where the entry names a config. The first line names
    the columns; there is no quoting. Pairs are numbered in their split, from 1. Lines that cannot be read, blank texts
    and scores outside the range are noted in `faults`.

    Raises:
        InputError: there is no such folder or hub data set, or no file of a split.
    """
    tables = [
        (split, _split_table(split, pairs, entry, faults))
        for split, pairs in (_hub_splits(entry) if _is_hub(entry) else _file_splits(entry, faults)).items()
    ]
    rows = pa.concat_tables([table for _, table in tables])
    num_rows = rows.num_rows
    nothing = pa.array([[]] * num_rows, pa.list_(pa.string()))
    no_title = pa.array([""] * num_rows, pa.string())
    return Collection(
        name=entry.name,
        corpus=pa.table([rows["id"], no_title, rows["sentence2"]], schema=CORPUS),
        queries=pa.table([rows["id"], rows["sentence1"], nothing], schema=QUERIES),
        qrels={split: _qrels(table) for split, table in tables},
    )


def _qrels(table: pa.Table) -> pa.Table:
    relevance = pa.array([1] * table.num_rows, pa.int32())
    return pa.table([table["id"], table["id"], relevance, table["gold"]], schema=SCORED_QRELS)


_PAIRS = pa.schema([(name, pa.string()) for name in ("id", "sentence1", "sentence2")] + [("gold", pa.float64())])


def _split_table(split: str, pairs: Iterable[tuple[_Place, Row]], entry: DataSet, faults: Faults) -> pa.Table:
    batches, block = [], []
    for number, (place, pair) in enumerate(pairs, start=1):
        try:
            block.append({"id": f"{split}-{number}", **_checked(pair, entry)})
        except ValueError as error:
            faults.add("malformed", file=place.file, key=place.key, message=str(error))
        if len(block) == _ROWS_AT_ONCE:
            batches.append(pa.RecordBatch.from_pylist(block, _PAIRS))
            block.clear()
    batches.append(pa.RecordBatch.from_pylist(block, _PAIRS))
    return pa.Table.from_batches(batches, _PAIRS)


def _checked(pair: Row, entry: DataSet) -> Row:
    assert entry.score_range is not None, "the entry of scored pairs has one"
    low, high = entry.score_range
    for name in ("sentence1", "sentence2"):
        if not isinstance(pair[name], str) or not pair[name].strip():
            raise ValueError(f"'{name}' is empty: a pair has two texts")
    score = _number(pair["score"])
    if not low <= score <= high:
        message = f"score {score:g} is not in the declared range {low:g} to {high:g} (change score_range"
        raise ValueError(f"{message}, or take the pair away where it has no rating)")
    return {"sentence1": pair["sentence1"], "sentence2": pair["sentence2"], "gold": (score - low) / (high - low)}


def _number(value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the score must be a number, not {value!r}") from error
    if not math.isfinite(score):
        raise ValueError(f"the score must be a finite number, not {value!r}")
    return score


def _is_hub(entry: DataSet) -> bool:
    return parse_source(entry.source).scheme == "hf"


def _files(entry: DataSet) -> dict[str, Path]:
    """The files by split."""
    prefix = f"{entry.config}-" if entry.config else ""
    found = sorted(locate(entry).glob(f"{prefix}*.tsv"))
    return {file.stem.removeprefix(prefix): file for file in found}


def _file_splits(entry: DataSet, faults: Faults) -> dict[str, Iterator[tuple[_Place, Row]]]:
    files = _files(entry)
    if not files:
        pattern = f"{entry.config}-SPLIT.tsv" if entry.config else "SPLIT.tsv"
        faults.add("missing", file="", key="", message=f"there is no file {pattern}")
    faults.raise_if_any()
    return {split: _lines(file, faults) for split, file in files.items()}


def _lines(file: Path, faults: Faults) -> Iterator[tuple[_Place, Row]]:
    header: list[str] | None = None
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split("\t")
                if header is None:
                    header = _header(fields)
                elif fields != [""]:
                    yield _Place(file=file.name, key=f"line {number}"), _named(header, fields)
            except ValueError as error:
                faults.add("malformed", file=file.name, key=f"line {number}", message=str(error))
                if header is None:
                    return


def _header(fields: list[str]) -> list[str]:
    missing = [name for name in COLUMNS if fields.count(name) != 1]
    if missing:
        raise ValueError(
            f"the first line must name the columns {', '.join(COLUMNS)}, separated by tabs; "
            f"{' and '.join(missing)} is not one of {fields}"
        )
    return fields


def _named(header: list[str], fields: list[str]) -> Row:
    if len(fields) != len(header):
        raise ValueError(f"{len(header)} fields, separated by tabs, are expected, not {len(fields)}")
    return dict(zip(header, fields, strict=True))


def _hub_splits(entry: DataSet) -> dict[str, Iterator[tuple[_Place, Row]]]:
    source = parse_source(entry.source)
    assert entry.config is not None, "the entry of a hub data set has one"
    splits = load_hub_splits(source.location, entry.config, source.revision, where=entry)
    return {split: _hub_rows(split, table) for split, table in splits.items()}


def _hub_rows(split: str, table: pa.Table) -> Iterator[tuple[_Place, Row]]:
    number = 0
    for batch in table.to_batches(_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            number += 1
            yield _Place(file=split, key=f"row {number}"), row


def load_hub_splits(location: str, config: str, revision: str | None, *, where: DataSet) -> dict[str, pa.Table]:
    """Every split of one config of a hub data set, with the columns COLUMNS.

    Args:
        location: the hub id, or a local folder in the hub's layout.
        config: the config's name.
        revision: the commit; None for a local folder.
        where: the entry that is read, for messages.

    Raises:
        InputError: it cannot be loaded, or lacks a column.
    """
    from datasets import load_dataset  # more than half a second, and only hub data sets need it

    try:
        found = load_dataset(location, config, revision=revision)
    except (OSError, ValueError) as error:  # what `datasets` raises: connection, not found, unknown config
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = (
            f"the hub data set cannot be loaded: {reason} (without a hub, name local files: an entry of the sweep "
            f"file with reader: sts and source: path:FOLDER)"
        )
        raise _problem(where, message) from error
    for split, data in found.items():
        missing = [name for name in COLUMNS if name not in data.column_names]
        if missing:
            raise _problem(where, f"split '{split}' has no column {' or '.join(missing)}, but {data.column_names}")
    return {str(split): data.select_columns(list(COLUMNS)).data.table for split, data in found.items()}


def _problem(entry: DataSet, message: str) -> InputError:
    return InputError([Problem(where=entry.source, key=f"data set '{entry.name}'", message=message)])
