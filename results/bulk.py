"""Rows of many keys, hundreds of files at a time: one by one, thousands of small files are mostly overhead."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from results.rows import PROVENANCE_KEY, read_rows
from results.schemas import SCHEMAS, is_of_version
from results.store import Readable

_MAX_FILES, _MAX_BYTES = 500, 64 * 2**20  # of a batch, packed


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of some keys, in their order.

    Attributes:
        keys: of the files.
        rows: the schema's columns, and `file`, the place of the row's file in `keys`.
        provenance: what made each file, as JSON; None where it does not say.
    """

    keys: tuple[str, ...]
    rows: pl.DataFrame
    provenance: tuple[str | None, ...]


@runtime_checkable
class HoldsBatches(Protocol):
    """A store that has rows of many keys together."""

    def batches(self, keys: Sequence[str], name: str) -> Iterator[Batch]:
        """As `read_batches`."""


def read_batches(store: Readable, keys: Sequence[str], name: str) -> Iterator[Batch]:
    """The rows under `keys`, all of which exist, some files at a time.

    Raises:
        SchemaError: another version of the contract wrote some, they are of another schema, or a file is damaged.
    """
    if isinstance(store, HoldsBatches):
        yield from store.batches(keys, name)
        return
    some: dict[str, bytes] = {}
    for key in keys:
        some[key] = store.read(key)
        if len(some) == _MAX_FILES or sum(map(len, some.values())) > _MAX_BYTES:
            yield _parsed(store, some, name)
            some = {}
    if some:
        yield _parsed(store, some, name)


def read_all(store: Readable, keys: Sequence[str], name: str) -> pl.DataFrame:
    """The rows under all of `keys`, in their order, as `read_batches` reads them."""
    places = {key: place for place, key in enumerate(keys)}
    frames = [_no_rows(name)]
    order: list[int] = []
    for batch in read_batches(store, keys, name):
        of_files = [places[key] for key in batch.keys]
        order += of_files
        frames.append(batch.rows.with_columns(file=pl.Series(of_files, dtype=pl.UInt32).gather(batch.rows["file"])))
    rows = pl.concat(frames)
    if order != sorted(order):  # several stores, each in an order of its own
        rows = rows.sort("file", maintain_order=True)
    return rows.drop("file")


def _no_rows(name: str) -> pl.DataFrame:
    return pl.DataFrame(schema={**_schema(name), "file": pl.UInt32})


def _parsed(store: Readable, of_keys: Mapping[str, bytes], name: str) -> Batch:
    keys, files = tuple(of_keys), list(of_keys.values())
    try:
        found = [pq.read_metadata(pa.BufferReader(data)) for data in files]
        rows = pl.scan_parquet(files, glob=False).collect()
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError):
        return _one_by_one(store, keys, name)
    sizes = [data.num_rows for data in found]
    told = [data.metadata or {} for data in found]
    if rows.schema != _schema(name) or sum(sizes) != rows.height or not all(is_of_version(name, of) for of in told):
        return _one_by_one(store, keys, name)
    provenance = tuple(of[PROVENANCE_KEY].decode() if PROVENANCE_KEY in of else None for of in told)
    return Batch(keys=keys, rows=with_file(rows, sizes), provenance=provenance)


def _schema(name: str) -> pl.Schema:
    frame = pl.from_arrow(pa.Table.from_batches([], schema=SCHEMAS[name]))
    assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
    return frame.schema


def _one_by_one(store: Readable, keys: tuple[str, ...], name: str) -> Batch:
    """What the fast way does not take: it is read, or told with its key, file by file."""
    tables = [read_rows(store, key, name) for key in keys]
    sizes = [table.num_rows for table in tables]
    frame = pl.from_arrow(pa.concat_tables([table.replace_schema_metadata() for table in tables]))
    assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
    told = [table.schema.metadata or {} for table in tables]
    provenance = tuple(of[PROVENANCE_KEY].decode() if PROVENANCE_KEY in of else None for of in told)
    return Batch(keys=keys, rows=with_file(frame, sizes), provenance=provenance)


def with_file(rows: pl.DataFrame, sizes: Sequence[int]) -> pl.DataFrame:
    """The rows, which stand file after file, with the place of each one's file."""
    return rows.with_columns(file=pl.Series(np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)))
