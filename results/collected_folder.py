"""The folder that `densesweep collect` writes, as a store: all rows of its sources in one Parquet file per schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from results.bulk import Batch, with_file
from results.findings import Finding
from results.layout import SweepRecord
from results.rows import PROVENANCE_KEY
from results.schemas import SCHEMA_VERSION, SCHEMAS, SchemaError
from search_spaces.records import read_json

RECORD, INDEX, RECORDS = "collected.json", "index.parquet", "records.parquet"
_INDEX_FIELDS: list[pa.Field] = [
    pa.field("key", pa.string(), nullable=False),  # of `results.layout`
    pa.field("schema", pa.string(), nullable=False),
    pa.field("row_group", pa.int64(), nullable=False),  # of the schema's file
    pa.field("start", pa.int64(), nullable=False),  # the first row in it
    pa.field("num_rows", pa.int64(), nullable=False),
    pa.field("provenance_json", pa.string()),  # what made the rows, where they say so
]
INDEX_SCHEMA = pa.schema(_INDEX_FIELDS)
_RECORD_FIELDS: list[pa.Field] = [
    pa.field("key", pa.string(), nullable=False),
    pa.field("data", pa.binary(), nullable=False),
]
RECORDS_SCHEMA = pa.schema(_RECORD_FIELDS)


@dataclass(frozen=True, kw_only=True)
class CollectedSource:
    """One source as it was when it was collected.

    Attributes:
        uri: where it was.
        kind: what it was.
        record: what it asked for.
        num_trials: how many of its trials had a checkpoint.
        num_probes: how many of its probes were done.
        made_with: provenance of its trials, each once, with the number of trials as `num_trials`.
        runs: the MLflow runs by trial and probe, where the source knew them.
        origin: the sweep folder that its rows are from in the end, where that is known.
    """

    uri: str
    kind: str
    record: SweepRecord
    num_trials: int
    num_probes: int
    made_with: tuple[Mapping[str, Any], ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None


@dataclass(frozen=True, kw_only=True)
class CollectedRecord:
    """What stands in `collected.json`: the sources, what all of them ask for, and what was found in joining them.

    `missing` is for people: whoever reads the folder finds it again.
    """

    schema_version: int
    sources: tuple[CollectedSource, ...]
    record: SweepRecord
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]


_RECORDS = TypeAdapter(CollectedRecord)


def record_to_bytes(record: CollectedRecord) -> bytes:
    """As indented JSON."""
    return _RECORDS.dump_json(record, indent=2) + b"\n"


def read_record(folder: Path) -> CollectedRecord:
    """What `collected.json` says.

    Raises:
        SchemaError: another version of this program wrote it.
    """
    data = (folder / RECORD).read_bytes()
    try:
        version = json.loads(data)["schema_version"]
    except (ValueError, LookupError, TypeError) as error:
        raise SchemaError(f"{folder / RECORD} is damaged: collect its sources anew") from error
    if version != SCHEMA_VERSION:
        raise SchemaError(
            f"{folder / RECORD} has rows of version {version} where {SCHEMA_VERSION} is read: collect its sources anew"
        )
    return read_json(_RECORDS, data, str(folder / RECORD))


class CollectedRows:
    """Reads a collected folder; implements `Readable`, `HoldsRows` and `HoldsBatches`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[str, list[int]] = {}  # by schema, the row after each row group
        self._last: dict[str, tuple[int, pl.DataFrame]] = {}  # by schema, the row group that was read last

    @cached_property
    def _records(self) -> dict[str, bytes]:
        with _readable(self._folder / RECORDS):
            columns: dict[str, list[Any]] = pq.ParquetFile(self._folder / RECORDS).read().to_pydict()
        return dict(zip(columns["key"], columns["data"], strict=True))

    @cached_property
    def _index(self) -> dict[str, tuple[str, int, int, int, str | None]]:
        """Schema, row group, start, number of rows and provenance by key."""
        with _readable(self._folder / INDEX):
            columns: dict[str, list[Any]] = pq.ParquetFile(self._folder / INDEX).read().to_pydict()
            return dict(zip(columns.pop("key"), zip(*columns.values(), strict=True), strict=True))

    @property
    def num_rows(self) -> dict[str, int]:
        """How many rows each schema has."""
        found: dict[str, int] = {}
        for schema, _, _, number, _ in self._index.values():
            found[schema] = found.get(schema, 0) + number
        return found

    def exists(self, key: str) -> bool:
        """Whether a record or rows are there under `key`."""
        return key in self._records or key in self._index

    def read(self, key: str) -> bytes:
        """A record, such as a status; rows are read by `rows`. Raises KeyError."""
        return self._records[key]

    def rows(self, key: str, name: str) -> pa.Table:
        """As `results.rows.read_rows`."""
        schema, row_group, start, num_rows, provenance = self._index[key]
        if schema != name:
            raise SchemaError(f"{self._folder}: rows of '{schema}' under {key} where '{name}' is read")
        table = self._row_group(name, row_group).slice(start, num_rows).to_arrow().cast(SCHEMAS[name])
        if provenance is None:
            return table
        return table.replace_schema_metadata({**table.schema.metadata, PROVENANCE_KEY: provenance.encode()})

    def batches(self, keys: Sequence[str], name: str) -> Iterator[Batch]:
        """As `results.bulk.read_batches`: a batch for each row group that has some of the keys."""
        of_group: dict[int, list[str]] = {}
        for key in keys:
            of_group.setdefault(self._index[key][1], []).append(key)
        for row_group, own in sorted(of_group.items()):
            own.sort(key=lambda key: self._index[key][2])
            rows = self._row_group(name, row_group)
            parts = [rows.slice(self._index[key][2], self._index[key][3]) for key in own]
            yield Batch(
                keys=tuple(own),
                rows=with_file(pl.concat(parts, rechunk=False), [part.height for part in parts]),
                provenance=tuple(self._index[key][4] for key in own),
            )

    def _row_group(self, name: str, number: int) -> pl.DataFrame:
        last = self._last.get(name)
        if last is None or last[0] != number:
            with _readable(self._folder / f"{name}.parquet") as path:
                last = self._last[name] = (number, self._read_row_group(path, name, number))
        return last[1]

    def _read_row_group(self, path: Path, name: str, number: int) -> pl.DataFrame:
        if name not in self._ends:
            found = pq.read_metadata(path)
            sizes = (found.row_group(place).num_rows for place in range(found.num_row_groups))
            self._ends[name] = list(accumulate(sizes))
        start, end = [0, *self._ends[name]][number], self._ends[name][number]
        # By polars, which keeps a text that is repeated once; pyarrow would write it out for every row.
        return pl.scan_parquet(path, glob=False).select(SCHEMAS[name].names).slice(start, end - start).collect()


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """Raises SchemaError where reading the file in the block finds it damaged, gone or of other columns."""
    try:
        yield path
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError, LookupError, TypeError) as error:
        fault = " ".join(str(error).split())[:200]
        raise SchemaError(f"{path} is damaged or not there ({fault}): collect its sources anew") from error
