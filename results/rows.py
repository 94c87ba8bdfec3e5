"""Rows in the store: Parquet files that keep the contract of `results.schemas`."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from results.schemas import SchemaError, check_table, make_table
from results.store import Readable, Store

PROVENANCE_KEY = b"densesweep.provenance"


def write_rows(
    store: Store,
    key: str,
    name: str,
    rows: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    provenance_json: str | None = None,
) -> None:
    """Write rows of the schema `name` under `key`, atomically.

    `provenance_json` says what made them; it stands in the file's footer, and `provenance_of` gives it back.

    Raises:
        SchemaError: the rows do not keep the contract; nothing is written.
    """
    table = make_table(name, rows)
    if provenance_json is not None:
        table = table.replace_schema_metadata({**table.schema.metadata, PROVENANCE_KEY: provenance_json.encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    store.write(key, buffer.getvalue())


@runtime_checkable
class HoldsRows(Protocol):
    """A store whose rows are not each a file."""

    def rows(self, key: str, name: str) -> pa.Table:
        """As `read_rows`."""


def read_rows(store: Readable, key: str, name: str) -> pa.Table:
    """Read the rows under `key`.

    Raises:
        KeyError: there are none.
        SchemaError: another version of the contract wrote them, they are of another schema, or the file is damaged.
    """
    if isinstance(store, HoldsRows):
        return store.rows(key, name)
    try:
        table = table_of(store.read(key))
    except (pa.ArrowException, OSError) as error:
        fault = f"{key} is damaged: {' '.join(str(error).split())}"
        raise SchemaError(f"{fault} (densesweep doctor --repair removes it; the next run makes it again)") from error
    try:
        return check_table(name, table)
    except SchemaError as error:
        raise SchemaError(f"{key}: {error}") from error


def table_of(data: bytes) -> pa.Table:
    """The table in the bytes of a Parquet file.

    One thread reads it. Arrow's others let go of Python's bytes when they please: where that is while Python ends, the
    process is aborted. Not by `pq.read_table`, which imports pyarrow.dataset and pandas: half a second.

    Raises:
        pa.ArrowException, OSError: it is no Parquet file, or a damaged one.
    """
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def provenance_of(table: pa.Table) -> str | None:
    """What made rows that `read_rows` gave; None where they do not say."""
    found = (table.schema.metadata or {}).get(PROVENANCE_KEY)
    return None if found is None else found.decode()
