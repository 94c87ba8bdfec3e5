"""The row contract on disk."""

import io
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from results.rows import provenance_of, read_rows, write_rows
from results.schemas import NORMS, SCHEMA_VERSION, SCHEMAS, SchemaError, make_table
from results.store import open_store

ROW = {
    "checkpoint_hash": "c",
    "data_set": "attack",
    "data_hash": "d",
    "split": "test",
    "side": "query",
    "text_id": "q%1",
    "norm": 1.5,
}


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_rows_come_back_as_written(store):
    write_rows(store, "norms.parquet", "norms", [ROW, {**ROW, "text_id": "q2"}])
    table = read_rows(store, "norms.parquet", "norms")
    assert table.to_pylist() == [ROW, {**ROW, "text_id": "q2"}]
    assert table.schema == NORMS


def test_columns_are_taken_too(store):
    write_rows(store, "norms.parquet", "norms", {name: [value] for name, value in ROW.items()})
    assert read_rows(store, "norms.parquet", "norms").to_pylist() == [ROW]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_is_left_with_bytes_of_python(store):
    """One that lets go of them while Python ends aborts the process."""
    write_rows(store, "norms.parquet", "norms", [ROW])
    code = (
        "import os, sys\nfrom results.rows import read_rows\nfrom results.store import open_store\n"
        "before = set(os.listdir('/proc/self/task'))\n"
        "read_rows(open_store(sys.argv[1]), 'norms.parquet', 'norms')\n"
        "names = [open(f'/proc/self/task/{t}/comm').read() for t in set(os.listdir('/proc/self/task')) - before]\n"
        "print([name for name in names if 'jemalloc' not in name])"
    )
    done = subprocess.run([sys.executable, "-c", code, store.uri], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_rows_say_what_made_them(store):
    write_rows(store, "norms.parquet", "norms", [ROW], provenance_json='{"python": "3.12"}')
    table = read_rows(store, "norms.parquet", "norms")
    assert table.to_pylist() == [ROW]
    assert provenance_of(table) == '{"python": "3.12"}'
    write_rows(store, "norms.parquet", "norms", [ROW])
    assert provenance_of(read_rows(store, "norms.parquet", "norms")) is None


def test_embeddings_are_half_precision_directions(store):
    row = {name: value for name, value in ROW.items() if name != "norm"}
    write_rows(store, "rows.parquet", "embeddings", [{**row, "direction": [0.6, -0.8], "norm": 70000.0}])
    [found] = read_rows(store, "rows.parquet", "embeddings").to_pylist()
    assert found["direction"] == pytest.approx([0.6, -0.8], abs=1e-3)
    assert found["norm"] == 70000.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": None}, "column 'norm' has empty values"),
        ({"norm": "long"}, "norms: "),
        ({"length": 3}, r"unknown columns \['length'\]"),
    ],
)
def test_rows_that_break_the_contract_are_refused(store, change, message):
    with pytest.raises(SchemaError, match=message):
        write_rows(store, "norms.parquet", "norms", [{**ROW, **change}])
    assert not store.exists("norms.parquet")


def test_a_missing_column_is_refused():
    with pytest.raises(SchemaError):
        make_table("norms", [{key: value for key, value in ROW.items() if key != "side"}])
    with pytest.raises(SchemaError):
        make_table("norms", {key: [value] for key, value in ROW.items() if key != "side"})


def test_rows_of_another_version_are_refused(store):
    buffer = io.BytesIO()
    pq.write_table(make_table("norms", [ROW]).replace_schema_metadata({"densesweep.schema": "norms/0"}), buffer)
    store.write("norms.parquet", buffer.getvalue())
    with pytest.raises(SchemaError, match=f"rows of 'norms/0' where 'norms/{SCHEMA_VERSION}' is read"):
        read_rows(store, "norms.parquet", "norms")


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_empty_table_of_every_schema_survives(store, name):
    write_rows(store, "rows.parquet", name, [])
    assert read_rows(store, "rows.parquet", name).schema == SCHEMAS[name]


def test_a_damaged_file_is_named_with_what_to_do(store):
    write_rows(store, "norms.parquet", "norms", [ROW])
    store.write("norms.parquet", store.read("norms.parquet")[:60])
    with pytest.raises(SchemaError, match=r"^norms\.parquet is damaged: .*doctor --repair"):
        read_rows(store, "norms.parquet", "norms")
