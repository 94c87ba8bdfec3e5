"""Rows at given places: the order asked for, and columns of more text than 32-bit offsets reach."""

import numpy as np
import pyarrow as pa
import pytest

from trainers.data_sets.rows import places_of, take_rows, take_values

CHUNK_BYTES, CHUNK_ROWS = 32 << 20, 4096
NUM_CHUNKS = 70  # 2.2 GiB, of one chunk's memory


def _chunked_table(*ends: int) -> pa.Table:
    """Rows of three columns, whose chunks end at different rows."""
    num_rows = ends[-1]
    numbers = pa.array(range(num_rows))
    lists = pa.array([[str(row)] * (row % 3) for row in range(num_rows)], pa.list_(pa.string()))
    texts = [
        pa.array([f"text {row}" for row in range(a, b)], pa.string()) for a, b in zip([0, *ends], ends, strict=False)
    ]
    return pa.table({"number": numbers, "list": lists, "text": pa.chunked_array(texts)})


@pytest.fixture(scope="module")
def huge() -> pa.ChunkedArray:
    rows = [f"{row:08d}" * (CHUNK_BYTES // CHUNK_ROWS // 8) for row in range(CHUNK_ROWS)]
    chunk = pa.array(rows, pa.string())
    return pa.chunked_array([chunk] * NUM_CHUNKS)


def test_rows_come_in_the_order_asked_for_also_twice():
    table = _chunked_table(3, 4, 4, 11, 20)
    rows = table.to_pylist()
    for positions in ([19, 0, 3, 3, 12, 4, 0], [0, 3, 3, 11], list(range(20)), [7]):
        taken = take_rows(table, positions)
        assert taken.to_pylist() == [rows[position] for position in positions]
        assert taken.schema == table.schema
    assert take_values(table["text"], np.array([15, 2])).to_pylist() == ["text 15", "text 2"]


def test_no_rows_of_a_table_or_of_an_empty_one():
    table = _chunked_table(2, 5)
    for source in (table, table.slice(0, 0)):
        assert take_rows(source, []).num_rows == 0
        assert take_rows(source, []).schema == table.schema


@pytest.mark.parametrize("positions", [[0, 5], [-1, 2], [4, -1]])
def test_a_row_that_is_not_there_is_refused(positions: list[int]):
    with pytest.raises(IndexError, match="of a table of 5 rows"):
        take_rows(_chunked_table(2, 5), positions)


def test_rows_of_a_column_beyond_32_bit_offsets(huge: pa.ChunkedArray):
    assert sum(chunk.nbytes for chunk in huge.chunks) > 2**31
    table = pa.table({"text": huge, "number": pa.array(range(len(huge)))})
    before = pa.total_allocated_bytes()
    taken = take_rows(table, [len(huge) - 1, 0, 17])
    assert pa.total_allocated_bytes() - before < CHUNK_BYTES
    assert taken["number"].to_pylist() == [len(huge) - 1, 0, 17]
    assert [text[:8] for text in taken["text"].to_pylist()] == ["00004095", "00000000", "00000017"]


def test_rows_too_large_to_be_put_in_another_order_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trainers.data_sets.rows._MOST_BYTES", 64)
    table = _chunked_table(3, 4, 11, 20)
    positions = [19, 0, 3, 3, 12, 4, 0, 18]
    assert take_rows(table, positions).to_pylist() == [table.to_pylist()[position] for position in positions]


def test_where_values_stand_in_a_column():
    column = pa.chunked_array([["a", "b"], [], ["c", "b", "d"]], pa.string())
    assert places_of(pa.array(["d", "b", "nowhere", "a"]), column).tolist() == [4, 1, -1, 0]
    assert places_of(pa.array([], pa.string()), column).tolist() == []
    assert places_of(pa.array(["a"]), column.slice(0, 0)).tolist() == [-1]


def test_where_values_stand_in_a_column_beyond_32_bit_offsets(huge: pa.ChunkedArray):
    before = pa.total_allocated_bytes()
    values = pa.array([huge[4095].as_py(), "nowhere"])
    assert places_of(values, huge).tolist() == [4095, -1]
    assert pa.total_allocated_bytes() - before < CHUNK_BYTES
