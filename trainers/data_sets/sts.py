"""Reader of scored pairs of texts (STS): rows with score, sentence1 and sentence2, from TSV files or a hub data set."""

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import CORPUS, QUERIES, SCORED_QRELS, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.hub_files import inputs_of
from trainers.data_sets.json_lines import shown
from trainers.data_sets.sts_files import PlacedRow, Row, files, is_repository, patterns, repository_splits, tsv_splits

VERSION = 1
_ROWS_AT_ONCE = 65_536
_PAIRS = pa.schema([(name, pa.string()) for name in ("id", "sentence1", "sentence2")] + [("gold", pa.float64())])


def inputs(entry: DataSet) -> list[str]:
    """How scores are read, and a local folder's files with sizes and times of change."""
    found = patterns(entry) if is_repository(entry) else [file.name for file in files(entry).values()]
    return [f"score range {entry.score_range}", *inputs_of(entry, found)]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read the pairs of all splits; scores become 0 to 1 by the entry's `score_range`.

    Pairs are numbered in their split, from 1. Rows that cannot be read, blank texts and scores outside the range are
    noted in `faults`.

    Raises:
        InputError: there is no such folder or hub data set, or no file of a split.
    """
    splits = repository_splits(entry) if is_repository(entry) else tsv_splits(entry, faults)
    tables = {split: _split_table(split, rows, entry, faults) for split, rows in splits.items()}
    pairs = pa.concat_tables(tables.values())
    no_title = pa.array([""] * pairs.num_rows, pa.string())
    nothing = pa.array([[]] * pairs.num_rows, pa.list_(pa.string()))
    return Collection(
        name=entry.name,
        corpus=pa.table([pairs["id"], no_title, pairs["sentence2"]], schema=CORPUS),
        queries=pa.table([pairs["id"], pairs["sentence1"], nothing], schema=QUERIES),
        qrels={split: _qrels(table) for split, table in tables.items()},
    )


def pairs_of_one_score(collection: Collection, split: str) -> str | None:
    """That all pairs of a split have the same score, so that ranks correlate with nothing; None where they differ."""
    gold = collection.qrels[split]["gold"]
    return f"all of its {len(gold):,} pairs have the same score" if len(gold.unique()) < 2 else None


def _qrels(pairs: pa.Table) -> pa.Table:
    relevance = pa.array([1] * pairs.num_rows, pa.int32())
    return pa.table([pairs["id"], pairs["id"], relevance, pairs["gold"]], schema=SCORED_QRELS)


def _split_table(split: str, rows: Iterable[PlacedRow], entry: DataSet, faults: Faults) -> pa.Table:
    batches, block = [], []
    for number, placed in enumerate(rows, start=1):
        try:
            block.append({"id": f"{split}-{number}", **_checked(placed.row, entry)})
        except ValueError as error:
            faults.add("malformed", file=placed.file, key=placed.key, message=str(error))
        if len(block) == _ROWS_AT_ONCE:
            batches.append(pa.RecordBatch.from_pylist(block, _PAIRS))
            block.clear()
    batches.append(pa.RecordBatch.from_pylist(block, _PAIRS))
    return pa.Table.from_batches(batches, _PAIRS)


def _checked(row: Row, entry: DataSet) -> Row:
    assert entry.score_range is not None, "the entry of scored pairs has one"
    low, high = entry.score_range
    for name in ("sentence1", "sentence2"):
        if not isinstance(row[name], str) or not row[name].strip():
            raise ValueError(f"'{name}' is empty: a pair has two texts")
    score = _number(row["score"])
    if not low <= score <= high:
        message = f"score {score:g} is not in the declared range {low:g} to {high:g} (change score_range"
        raise ValueError(f"{message}, or take the pair away where it has no rating)")
    return {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "gold": (score - low) / (high - low)}


def _number(value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the score must be a number, not {shown(value)}") from error
    if not math.isfinite(score):
        raise ValueError(f"the score must be a finite number, not {shown(value)}")
    return score
