"""The cache of built collections: content hashes, what builds anew, races, and memory mapping."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.collection import QRELS as QRELS_SCHEMA
from trainers.data_sets.hashing import split_hashes

ROOT = Path(__file__).parents[3]
_PRINT_HASH = """
import sys
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from trainers import data_sets
entry = DATA_SETS[sys.argv[1]] if sys.argv[1] in DATA_SETS else DataSet(name="mine", source="path:" + sys.argv[1])
print(data_sets.fingerprint(entry, "test").content_hash)
"""


def _process(argument: str, cache: Path, hash_seed: str = "0") -> "subprocess.Popen[str]":
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "DENSESWEEP_CACHE": str(cache), "PYTHONHASHSEED": hash_seed
    }  # fmt: skip
    command = [sys.executable, "-c", _PRINT_HASH, argument]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _printed(process: "subprocess.Popen[str]") -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out.strip()


def _change(file: Path, old: str, new: str) -> None:
    changed = file.read_text(encoding="utf-8").replace(old, new)
    assert changed != file.read_text(encoding="utf-8")
    file.write_text(changed, encoding="utf-8")


def _reversed_lines(file: Path, header: int) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines[:header], *reversed(lines[header:])]) + "\n", encoding="utf-8")


@pytest.fixture
def content_hash(beir_folder, entry_of):
    return lambda: data_sets.fingerprint(entry_of(beir_folder), "test").content_hash


def test_the_hash_is_known(content_hash):
    """Held as a value: were it to change, every sweep would train anew."""
    assert content_hash() == "e6a1cf0f52b24df10c45a1f55e596cc17a2c3741a17dc0b88ba8ca62acb99db0"


def test_the_hash_does_not_depend_on_order_place_or_name(beir_folder, entry_of, content_hash, tmp_path):
    before = content_hash()
    for name, header in (("corpus.jsonl", 0), ("queries.jsonl", 0), ("qrels/test.tsv", 1)):
        _reversed_lines(beir_folder / name, header)
    assert content_hash() == before
    moved = Path(shutil.copytree(beir_folder, tmp_path / "elsewhere"))
    assert data_sets.fingerprint(entry_of(moved, name="other"), "test").content_hash == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("corpus.jsonl", "trees", "bushes"),
        ("corpus.jsonl", '"title": "Apples", "text": "grow', '"title": "", "text": "Apples grow'),
        ("corpus.jsonl", "d3", "d03"),
        ("queries.jsonl", "umlauts", "umlaut"),
        ("queries.jsonl", '["d2"]', "[]"),
        ("qrels/test.tsv", "q1\td1\t2", "q1\td1\t3"),
        ("qrels/test.tsv", "q1\td3\t0\n", ""),
    ],
)  # fmt: skip
def test_the_hash_changes_with_what_is_read(beir_folder, content_hash, file, old, new):
    before = content_hash()
    _change(beir_folder / file, old, new)
    if "d03" in new:
        _change(beir_folder / "qrels/test.tsv", old, new)
    assert content_hash() != before


def test_the_hash_of_a_split_stays_when_another_split_changes(beir_folder, content_hash):
    before = content_hash()
    (beir_folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq3\td1\t1\n")
    with (beir_folder / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "q3", "text": "of the other split"}\n')
    assert content_hash() == before


def test_no_two_rows_run_together(beir_folder, entry_of):
    """('ab', 'c') and ('a', 'bc') are different judgements, though their letters are the same."""
    collection = data_sets.load(entry_of(beir_folder))

    def hash_of(query: str, document: str) -> str:
        row = {"query_id": query, "document_id": document, "relevance": 1}
        qrels = {"test": pa.Table.from_pylist([row], QRELS_SCHEMA)}
        changed = data_sets.Collection(
            name="mine", corpus=collection.corpus, queries=collection.queries, qrels=qrels
        )  # fmt: skip
        return split_hashes(changed)["test"]

    assert hash_of("ab", "c") != hash_of("a", "bc")


def test_a_second_call_reads_the_cache_and_a_changed_file_does_not(beir_folder, entry_of, tmp_path):
    entry = entry_of(beir_folder)
    data_sets.load(entry)
    [built] = (tmp_path / "cache" / "data_sets").iterdir()
    before = {file.name: file.stat().st_mtime_ns for file in built.iterdir()}
    data_sets.load(entry)
    assert {file.name: file.stat().st_mtime_ns for file in built.iterdir()} == before
    _change(beir_folder / "corpus.jsonl", "trees", "bushes")
    assert data_sets.load(entry).corpus["text"].to_pylist()[0] == "grow on bushes"


def test_loaded_tables_are_mapped_not_read(beir_folder, entry_of):
    data_sets.load(entry_of(beir_folder))
    before = pa.total_allocated_bytes()
    collection = data_sets.load(entry_of(beir_folder))
    assert collection.corpus.nbytes > 50
    assert pa.total_allocated_bytes() == before


def test_a_builder_killed_half_way_leaves_nothing_that_is_read(beir_folder, entry_of, tmp_path):
    entry = entry_of(beir_folder)
    data_sets.load(entry)
    [built] = (tmp_path / "cache" / "data_sets").iterdir()
    built.rename(built.with_name(".building-abc"))
    (built.with_name(".building-abc") / "record.json").unlink()
    assert data_sets.load(entry).corpus.num_rows == 3


def test_unwritable_cache_is_one_clear_message(beir_folder, entry_of, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"the cache folder cannot be written .*set DENSESWEEP_CACHE"):
        data_sets.load(entry_of(beir_folder))


def test_processes_that_build_at_once_agree_and_leave_one_folder(beir_folder, content_hash, tmp_path):
    cache = tmp_path / "raced"
    processes = [_process(str(beir_folder), cache, seed) for seed in "123"]
    assert {_printed(process) for process in processes} == {content_hash()}
    assert len(list((cache / "data_sets").iterdir())) == 1


@pytest.mark.parametrize("name", ["attack", pytest.param("pydoc", marks=pytest.mark.slow)])
def test_another_process_builds_the_same(name, tmp_path):
    from search_spaces.catalogue.data_sets import DATA_SETS

    found = _printed(_process(name, tmp_path, hash_seed="4711"))
    assert found == data_sets.fingerprint(DATA_SETS[name], "test").content_hash
