"""Rows in the store: Parquet files that keep the contract of `results.schemas`."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from results.schemas import check_table, make_table
from results.store import Store


def write_rows(store: Store, key: str, name: str, rows: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> None:
    """Write rows of the schema `name` under `key`, atomically.

    Raises:
        SchemaError: the rows do not keep the contract; nothing is written.
    """
    buffer = io.BytesIO()
    pq.write_table(make_table(name, rows), buffer, compression="zstd")
    store.write(key, buffer.getvalue())


def read_rows(store: Store, key: str, name: str) -> pa.Table:
    """Read the rows under `key`.

    Raises:
        KeyError: there are none.
        SchemaError: another version of the contract wrote them, or they are of another schema.
    """
    # Not `pq.read_table`: it imports pyarrow.dataset and pandas, half a second before the first row.
    return check_table(name, pq.ParquetFile(pa.BufferReader(store.read(key))).read())
