"""Hub data sets from local copies of their files, and from a cache laid out as the hub's client does. No network."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.problems import InputError
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.training.pairs import load_pairs

ROOT = Path(__file__).parents[3]
# As the page of microsoft/ms_marco describes them.
PASSAGES = pa.struct(
    [
        ("is_selected", pa.list_(pa.int32())),
        ("passage_text", pa.list_(pa.string())),
        ("url", pa.list_(pa.string())),
    ]
)
MS_MARCO = pa.schema(
    [
        ("answers", pa.list_(pa.string())),
        ("passages", PASSAGES),
        ("query", pa.string()),
        ("query_id", pa.int32()),
        ("query_type", pa.string()),
        ("wellFormedAnswers", pa.list_(pa.string())),
    ]
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def ms_marco_row(query_id, query, passages):
    return {
        "answers": ["an answer"],
        "passages": {
            "is_selected": [int(selected) for _, selected in passages],
            "passage_text": [text for text, _ in passages],
            "url": [f"http://example.org/{place}" for place, _ in enumerate(passages)],
        },
        "query": query,
        "query_id": query_id,
        "query_type": "description",
        "wellFormedAnswers": [],
    }


TRAIN = [
    ms_marco_row(1, "what purrs", [("Cats purr.", 1), ("Dogs bark.", 0), ("Cows moo.", 0)]),
    ms_marco_row(2, "what barks", [("Cats purr.", 0), ("Dogs bark.", 1), ("Wolves bark, too.", 1), (" ", 0)]),
    ms_marco_row(3, "what is the meaning of life", [("42", 0), ("None.", 0)]),
    ms_marco_row(4, "", [("Cats purr.", 1)]),
]


def write_parquet(folder, split, rows, shards=1):
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        table = pa.Table.from_pylist(rows[shard::shards], MS_MARCO)
        pq.write_table(table, folder / f"{split}-{shard:05d}-of-{shards:05d}.parquet")


def ms_marco_entry(folder, **changes):
    source = f"path:{folder}"
    return DataSet(**{"name": "mine", "source": source, "config": "v1.1", "reader": "ms_marco", **changes})


@pytest.fixture
def ms_marco(tmp_path):
    write_parquet(tmp_path / "hub" / "v1.1", "train", TRAIN, shards=2)
    write_parquet(tmp_path / "hub" / "v1.1", "validation", [ms_marco_row(9, "what moos", [("Cows moo.", 1)])])
    write_parquet(tmp_path / "hub" / "v2.1", "train", [ms_marco_row(9, "of another config", [("x", 1)])])
    return tmp_path / "hub"


def as_texts(entry, split="train"):
    pairs = load_pairs(DataSpec(entry=entry, split=split), hard_negatives=1)
    texts = [
        (pairs.query_texts[q], pairs.document_texts[d])
        for q, d in zip(pairs.query_index, pairs.document_index, strict=True)
    ]
    negatives = {
        query: sorted(pairs.document_texts[d] for d in pairs.negatives[place])
        for place, query in enumerate(pairs.query_texts)
    }
    return texts, negatives


def test_selected_passages_are_positives_and_the_others_negatives(ms_marco):
    entry = ms_marco_entry(ms_marco)
    texts, negatives = as_texts(entry)
    assert texts == [
        ("what barks", "Dogs bark."),
        ("what barks", "Wolves bark, too."),
        ("what purrs", "Cats purr."),
    ]
    assert negatives == {"what barks": ["Cats purr."], "what purrs": ["Cows moo.", "Dogs bark."]}
    collection = data_sets.load(entry)
    assert set(collection.qrels) == {"train", "validation"}
    assert set(collection.qrels["train"]["relevance"].to_pylist()) == {1}, "what was not selected is no judgement"
    assert collection.corpus.num_rows == 6
    assert sorted(data_sets.report(entry).warnings()) == [
        "1 passages of 'train' without text were left out",
        "1 queries of 'train' without a selected passage were left out",
        "1 queries of 'train' without text were left out",
    ]


def test_the_config_decides_and_must_be_named(ms_marco):
    assert as_texts(ms_marco_entry(ms_marco, config="v2.1"))[0] == [("of another config", "x")]
    with pytest.raises(InputError, match="names no config"):
        data_sets.load(ms_marco_entry(ms_marco, config=None))
    with pytest.raises(InputError, match=r"has no files SPLIT-00000-of-00001\.parquet"):
        data_sets.load(ms_marco_entry(ms_marco, config="v3.1"))


def test_a_missing_shard_is_named_before_anything_is_trained(ms_marco):
    (ms_marco / "v1.1" / "train-00001-of-00002.parquet").unlink()
    with pytest.raises(InputError, match="split 'train' has 1 of its 2 files"):
        data_sets.load(ms_marco_entry(ms_marco))


def test_a_file_cut_off_is_named(ms_marco):
    file = ms_marco / "v1.1" / "train-00000-of-00002.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"train-00000-of-00002\.parquet cannot be read .*copy it again"):
        data_sets.load(ms_marco_entry(ms_marco))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("passages"), "has no column passages"),
        (lambda t: t.set_column(1, "passages", pa.array(["text"] * len(t))), "'passages' must hold the lists"),
        (lambda t: t.set_column(2, "query", pa.nulls(len(t), pa.string())), "'query' must be text, not None"),
    ],
)
def test_other_columns_are_named(tmp_path, change, message):
    (tmp_path / "hub" / "v1.1").mkdir(parents=True)
    table = change(pa.Table.from_pylist(TRAIN, MS_MARCO))
    pq.write_table(table, tmp_path / "hub" / "v1.1" / "train-00000-of-00001.parquet")
    with pytest.raises(InputError, match=message):
        data_sets.load(ms_marco_entry(tmp_path / "hub"))


def passage(docid, text, title="-"):
    return {"docid": docid, "title": title, "text": text}


TEVATRON = [
    {
        "query_id": "1",
        "query": "what purrs",
        "positive_passages": [passage("10", "purr.", "Cats")],
        "negative_passages": [passage("11", "Dogs bark."), passage("12", "Cows moo."), passage("10", "purr.", "Cats")],
    },
    {"query_id": 2, "query": "what barks", "positive_passages": [passage(11, "Dogs bark.")], "negative_passages": []},
    {"query_id": "3", "query": "what else", "positive_passages": [], "negative_passages": [passage("12", "Cows moo.")]},
]


def write_gzip(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def tevatron(tmp_path):
    write_gzip(tmp_path / "hub" / "train.jsonl.gz", TEVATRON)
    write_gzip(tmp_path / "hub" / "dev.jsonl.gz", [{"query_id": "8", "query": "a test query"}])
    (tmp_path / "hub" / "msmarco-passage.py").write_text("raise SystemExit('a loading script must not run')")
    return tmp_path / "hub"


def tevatron_entry(folder):
    return DataSet(name="mine", source=f"path:{folder}", config="default", reader="tevatron", train_split="train")


def test_passages_become_pairs_and_negatives(tevatron):
    entry = tevatron_entry(tevatron)
    texts, negatives = as_texts(entry)
    assert texts == [("what barks", "- Dogs bark."), ("what purrs", "Cats purr.")]
    assert negatives == {"what barks": [], "what purrs": ["- Cows moo.", "- Dogs bark."]}
    collection = data_sets.load(entry)
    assert set(collection.qrels) == {"train"}, "a file of queries alone is no split"
    assert sorted(collection.corpus["id"].to_pylist()) == ["10", "11", "12"]
    assert sorted(data_sets.report(entry).warnings()) == [
        "1 queries of 'dev' without a positive passage were left out",
        "1 queries of 'train' without a positive passage were left out",
    ]


def test_a_bad_line_of_a_packed_file_is_named(tevatron):
    write_gzip(tevatron / "train.jsonl.gz", [*TEVATRON, {"query_id": "4", "query": "q", "positive_passages": "text"}])
    with pytest.raises(InputError, match=r"train\.jsonl\.gz.*line 4.*'positive_passages' must be a list of objects"):
        data_sets.load(tevatron_entry(tevatron))


def test_a_packed_file_cut_off_is_named(tevatron):
    file = tevatron / "train.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"train\.jsonl\.gz is damaged or was not fetched whole"):
        data_sets.load(tevatron_entry(tevatron))


def in_cache(hub, source, write):
    """Lay files out as the hub's client does: a snapshot folder of the revision, with all it was asked for."""
    name, _, revision = source.removeprefix("hf:").partition("@")
    snapshot = hub / f"datasets--{name.replace('/', '--')}" / "snapshots" / revision
    write(snapshot)


LOAD = """
import sys
from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.problems import InputError
from search_spaces.specs import DataSpec
from trainers.training.pairs import load_pairs
try:
    pairs = load_pairs(DataSpec(entry=DATA_SETS[sys.argv[1]], split="train"), hard_negatives=1)
except InputError as error:
    print(error)
    raise SystemExit(3)
print(len(pairs), len(pairs.negatives.values_V))
"""


def load_offline(tmp_path, name):
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub_cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", LOAD, name]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


def test_catalogue_entries_are_read_from_the_cache_without_a_network(tmp_path):
    def ms_marco_files(snapshot):
        write_parquet(snapshot / "v1.1", "train", TRAIN)

    in_cache(tmp_path / "hub_cache", DATA_SETS["msmarco_v1"].source, ms_marco_files)
    in_cache(
        tmp_path / "hub_cache",
        DATA_SETS["msmarco_tevatron"].source,
        lambda snapshot: write_gzip(snapshot / "train.jsonl.gz", TEVATRON),
    )
    for name, expected in (("msmarco_v1", "3 3"), ("msmarco_tevatron", "2 2")):
        done = load_offline(tmp_path, name)
        assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize("name", ["msmarco_v1", "msmarco_tevatron"])
def test_without_cache_and_network_one_message_says_what_to_run(tmp_path, name):
    done = load_offline(tmp_path, name)
    assert done.returncode == 3, done.stderr
    location, _, revision = DATA_SETS[name].source.removeprefix("hf:").partition("@")
    assert len(done.stdout.strip().splitlines()) == 1
    assert "is not in the local Hugging Face cache and the hub cannot be reached" in done.stdout
    assert f"hf download --repo-type dataset {location} --revision {revision} --include" in done.stdout
    assert "source: path:FOLDER" in done.stdout
