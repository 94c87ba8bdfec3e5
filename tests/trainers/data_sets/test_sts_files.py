"""Scored pairs from files and from a hub data set's own layout."""

import gzip
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.sts import pairs_of_one_score

HEADER = "score\tsentence1\tsentence2"
LINES = ["4.4\ta cat sits .\ta cat is sitting .", '0\tsay "no"\tit rains', "5.0\tÄpfel\tÄpfel"]
REVISION = "ab" * 20
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def write(folder: Path, name: str, lines: list[str], header: str = HEADER) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder


def entry(folder: Path, **changes) -> DataSet:
    given = {"name": "mine", "source": f"path:{folder}", "reader": "sts", "score_range": (0, 5), **changes}
    return DataSet(**given)


def pairs(collection, split):
    """(first text, second text, gold) in the order of the file, joined by id."""
    first = dict(zip(*(collection.queries[name].to_pylist() for name in ("id", "text")), strict=True))
    second = dict(zip(*(collection.corpus[name].to_pylist() for name in ("id", "text")), strict=True))
    rows = collection.qrels[split].to_pylist()
    return [(first[row["query_id"]], second[row["document_id"]], row["gold"]) for row in rows]


def test_splits_are_files_and_scores_become_0_to_1(tmp_path):
    folder = write(tmp_path / "mine", "test.tsv", LINES)
    write(folder, "train.tsv", ["2.5\tone\ttwo"])
    collection = data_sets.load(entry(folder))
    assert set(collection.qrels) == {"test", "train"}
    assert pairs(collection, "train") == [("one", "two", 0.5)]
    found = pairs(collection, "test")
    assert [pair[:2] for pair in found] == [tuple(line.split("\t")[1:]) for line in LINES]
    assert [pair[2] for pair in found] == pytest.approx([0.88, 0.0, 1.0])
    assert data_sets.fingerprint(entry(folder), "test").num_pairs == 3


def test_a_config_names_its_files_and_columns_are_found_by_name(tmp_path):
    folder = write(tmp_path / "many", "sickr-test.tsv", ["one\t3\ttwo"], header="sentence2\tscore\tsentence1")
    write(folder, "other-test.tsv", LINES)
    collection = data_sets.load(entry(folder, config="sickr", score_range=(1, 5)))
    assert pairs(collection, "test") == [("two", "one", 0.5)]


def test_a_hash_is_of_content_and_a_changed_range_or_score_is_another(tmp_path):
    here, there = write(tmp_path / "here", "test.tsv", LINES), write(tmp_path / "there", "x-test.tsv", LINES)
    other = write(tmp_path / "other", "test.tsv", ["4.3\ta cat sits .\ta cat is sitting .", *LINES[1:]])
    hashes = [
        data_sets.fingerprint(found, "test").content_hash
        for found in (
            entry(here),
            entry(there, config="x", name="renamed"),
            entry(here, score_range=(0, 6)),
            entry(other),
        )
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("4.4\tonly one", "3 fields"),
        ("much\tone\ttwo", "must be a number, not 'much'"),
        ("nan\tone\ttwo", "must be a finite number"),
        ("5.5\tone\ttwo", "score 5.5 is not in the declared range 0 to 5"),
        ("-1\tone\ttwo", "take the pair away where it has no rating"),
        ("3\t \ttwo", "'sentence1' is empty"),
        ("3\tone\t", "'sentence2' is empty"),
    ],
)
def test_each_faulty_line_is_named(tmp_path, line, message):
    folder = write(tmp_path / "mine", "test.tsv", [*LINES, line])
    with pytest.raises(InputError, match=rf"mine/test\.tsv: line 5: .*{message}"):
        data_sets.load(entry(folder))


def test_a_file_without_header_or_a_folder_without_files_is_refused(tmp_path):
    folder = write(tmp_path / "mine", "test.tsv", LINES, header="3.0\tone\ttwo")
    with pytest.raises(InputError, match="the first line must name the columns score, sentence1, sentence2"):
        data_sets.load(entry(folder))
    with pytest.raises(InputError, match=r"there is no file stsb-SPLIT\.tsv"):
        data_sets.load(entry(folder, config="stsb"))
    with pytest.raises(InputError, match="did you mean 'test'"):
        data_sets.fingerprint(entry(write(tmp_path / "good", "test.tsv", LINES)), "tset")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score_range": None}, "need score_range"),
        ({"score_range": (5, 0)}, "need score_range"),
        ({"measures": ("nDCG@10",)}, "Spearman alone"),
        ({"source": f"hf:org/name@{REVISION}"}, "names its config"),
        ({"cut": {"num_documents": 1, "num_queries": 1}}, "cannot be cut"),
        ({"reader": "beir"}, "score_range is for scored pairs"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with pytest.raises(ValidationError, match=message):
        entry(tmp_path, **changes)


def write_hub(folder: Path, configs: dict[str, dict[str, pa.Table]]) -> Path:
    """A data set repository as the hub has it: parquet files, and their configs in the card."""
    card = ["---", "configs:"]
    for config, splits in configs.items():
        card += [f"- config_name: {config}", "  data_files:"]
        for split, table in splits.items():
            card += [f"  - split: {split}", f"    path: {config}/{split}-*"]
            file = folder / config / f"{split}-00000-of-00001.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, file)
    (folder / "README.md").write_text("\n".join([*card, "---", ""]))
    return folder


def scored(*rows: tuple[float | None, str, str]) -> pa.Table:
    first, second, score = ([row[i] for row in rows] for i in (1, 2, 0))
    return pa.table({"sentence1": first, "sentence2": second, "score": pa.array(score, pa.float64())})


ALL_NLI = {
    "pair-score": {"train": scored((0.5, "one", "two"), (1.0, "three", "four")), "dev": scored((0.0, "five", "six"))},
    "triplet": {"train": pa.table({"anchor": ["one"], "positive": ["two"], "negative": ["three"]})},
}


def cached(tmp_path: Path, repository: Path, name: str) -> str:
    """Lay a repository out in the hub client's cache, and return its source."""
    folder = tmp_path / "hub" / "hub" / f"datasets--org--{name}" / "snapshots" / REVISION
    shutil.copytree(repository, folder)
    return f"hf:org/{name}@{REVISION}"


@pytest.mark.parametrize("where", ["cache", "copy"])
def test_a_hub_data_set_is_read_by_its_config_from_the_cache_or_a_copy(tmp_path, where):
    folder = write_hub(tmp_path / "repository", ALL_NLI)
    source = cached(tmp_path, folder, "all-nli") if where == "cache" else f"path:{folder}"
    asked = entry(folder, source=source, config="pair-score", score_range=(0, 1))
    code = f"""
import sys
from search_spaces.catalogue.data_sets import DataSet
from trainers import data_sets
collection = data_sets.load(DataSet.model_validate_json({asked.model_dump_json()!r}))
for split in ("train", "dev"):
    print(collection.queries["text"].to_pylist(), collection.qrels[split]["gold"].to_pylist())
print([name for name in ("torch", "ray", "mlflow") if name in sys.modules])
"""
    # In a process of its own, since the hub client reads its environment once.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    texts = ["one", "three", "five"]
    assert ran.stdout.splitlines() == [f"{texts} [0.5, 1.0]", f"{texts} [0.0]", "[]"]


def test_a_repository_without_such_config_columns_or_scores_says_so(tmp_path):
    unrated = {"default": {"test": scored((0.2, "a", "b"), (-1.0, "c", "d"))}}
    folder, other = write_hub(tmp_path / "all-nli", ALL_NLI), write_hub(tmp_path / "unrated", unrated)
    with pytest.raises(InputError, match=r"config 'pair_score' cannot be loaded.*pair-score"):
        data_sets.load(entry(folder, config="pair_score", score_range=(0, 1)))
    with pytest.raises(InputError, match=r"split 'train' has no column score or .* \(it has anchor, positive"):
        data_sets.load(entry(folder, config="triplet", score_range=(0, 1)))
    with pytest.raises(InputError, match=r"unrated/test: row 2: score -1 is not in the declared range"):
        data_sets.load(entry(other, config="default", score_range=(0, 1)))


def test_a_hub_that_cannot_be_reached_names_the_remedy(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"data set 'stsb': .*hf download --repo-type dataset.* or name a copy"):
        data_sets.load(DATA_SETS["stsb"])


@pytest.mark.parametrize(
    ("name", "split", "num_pairs"),
    [("stsb", "train", 5749), ("stsb", "test", 1379), ("sickr", "test", 4927), ("sts14", "test", 3750)],
)
def test_the_real_sets_are_read_whole(shared_data, name, split, num_pairs):
    own = {"config": name, "score_range": (1, 5) if name == "sickr" else (0, 5)}
    mine = entry(shared_data("sts"), **own)
    assert data_sets.fingerprint(mine, split).num_pairs == num_pairs
    golds = data_sets.load(mine).qrels[split]["gold"].to_pylist()
    assert (min(golds), max(golds)) == (0.0, 1.0)
    assert not any(map(math.isnan, golds))


def test_a_file_that_is_no_text_is_one_fault(tmp_path):
    folder = write(tmp_path / "mine", "test.tsv", LINES)
    text = (folder / "test.tsv").read_text()
    for content, told in (
        (text.encode("utf-16"), "it is UTF-16, and must be UTF-8"),
        (gzip.compress(text.encode()), "it is packed by gzip; unpack it"),
    ):
        (folder / "test.tsv").write_bytes(content)
        with pytest.raises(InputError) as refused:
            data_sets.load(entry(folder))
        assert [str(problem) for problem in refused.value.problems] == [f"{folder}/test.tsv: {told}"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (LINES, None),
        (["2\ta\tb", "2.0\tc\td"], "all of its 2 pairs have the same score"),
        (["2\ta\tb"], "all of its 1 pairs have the same score"),
    ],
)
def test_pairs_of_one_score_have_no_rank_correlation(tmp_path, lines, told):
    found = entry(write(tmp_path / "mine", "test.tsv", lines))
    assert pairs_of_one_score(data_sets.load(found), "test") == told
