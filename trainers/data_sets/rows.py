"""Rows of tables at given places, read chunk by chunk. Imports no torch.

`Table.take` puts all chunks of a column together first: of a few rows it copies the whole corpus, and beyond 2 GiB of
text the 32-bit offsets of the copy overflow.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MOST_BYTES = 1 << 30  # that are put together to bring rows into another order than the table's


def take_rows(table: pa.Table, positions: npt.ArrayLike) -> pa.Table:
    """The rows at these positions, in their order; a position may come several times. Copies no other row.

    Raises:
        IndexError: there is no such row.
    """
    position_N = np.asarray(positions, dtype=np.int64)
    if len(position_N) and not (position_N.min() >= 0 and position_N.max() < table.num_rows):
        asked = f"{position_N.min()} to {position_N.max()}"
        raise IndexError(f"rows {asked} were asked for, of a table of {table.num_rows} rows (from 0 on)")
    if (position_N[1:] >= position_N[:-1]).all():
        return _ascending(table, position_N)
    order_N = np.argsort(position_N, kind="stable")
    sorted_rows = _ascending(table, position_N[order_N])
    if sorted_rows.nbytes > _MOST_BYTES:
        half = len(position_N) // 2
        return pa.concat_tables([take_rows(table, position_N[:half]), take_rows(table, position_N[half:])])
    place_N = np.empty_like(order_N)
    place_N[order_N] = np.arange(len(order_N))
    return sorted_rows.combine_chunks().take(place_N)


def take_values(column: pa.Array | pa.ChunkedArray, positions: npt.ArrayLike) -> pa.ChunkedArray:
    """The values of a column at these positions, as `take_rows`."""
    return take_rows(pa.table({"values": column}), positions)["values"]


def places_of(values: pa.Array, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Where each of some different values stands (first) in a column; -1 where it does not.

    What is hashed is the values, so that memory is theirs however long the column is.
    """
    place_V = np.full(len(values), -1, dtype=np.int64)
    begin = column.length()
    for chunk in reversed(column.chunks if len(values) else []):
        begin -= len(chunk)
        number_C = pc.index_in(chunk, value_set=values).fill_null(-1).to_numpy(zero_copy_only=False)
        found = np.flatnonzero(number_C >= 0)[::-1]
        place_V[number_C[found]] = begin + found
    return place_V


def _ascending(table: pa.Table, position_N: npt.NDArray[np.int64]) -> pa.Table:
    batches = table.to_batches()
    begin = np.cumsum([0, *(batch.num_rows for batch in batches)])
    ends = np.searchsorted(position_N, begin)
    parts = [
        batch.take(pa.array(position_N[low:high] - first))
        for batch, first, low, high in zip(batches, begin, ends, ends[1:], strict=False)
        if low < high
    ]
    return pa.Table.from_batches(parts, table.schema)
