"""BRIGHT's documents and examples, from a copy of the repository's files, and from folders in BEIR's layout."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.problems import InputError
from trainers import data_sets

DOCUMENTS = pa.schema([("id", pa.string()), ("content", pa.string())])
EXAMPLES = pa.schema(
    [
        ("query", pa.string()),
        ("reasoning", pa.string()),
        ("id", pa.string()),
        ("excluded_ids", pa.list_(pa.string())),
        ("gold_ids_long", pa.list_(pa.string())),
        ("gold_ids", pa.list_(pa.string())),
        ("gold_answer", pa.string()),
    ]
)
ROWS = [
    {"id": "0", "query": "why is the sky blue?", "gold_ids": ["a/1.txt", "a/2.txt"], "excluded_ids": ["N/A"]},
    {"id": "1", "query": "prove it", "gold_ids": ["b/1.txt", "b/1.txt"], "excluded_ids": ["b/2.txt", "b/2.txt"]},
]
TEXTS = {"a/1.txt": "light", "a/2.txt": "scatters", "b/1.txt": "a proof", "b/2.txt": "the question itself"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def write(folder, domain, texts, rows, shards=1):
    """As the repository has them: documents/DOMAIN-*.parquet and examples/DOMAIN-*.parquet."""
    documents = [{"id": key, "content": text} for key, text in texts.items()]
    for kind, of_kind, schema in (("documents", documents, DOCUMENTS), ("examples", rows, EXAMPLES)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for shard in range(shards):
            table = pa.Table.from_pylist(of_kind[shard::shards], schema)
            pq.write_table(table, folder / kind / f"{domain}-{shard:05d}-of-{shards:05d}.parquet")


def entry_of(folder, **changes):
    values = {"name": "mine", "source": f"path:{folder}", "config": "biology", "reader": "bright"}
    return DataSet(**values | {"exclusion": "excluded_ids"} | changes)


@pytest.mark.parametrize("shards", [1, 2])
def test_gold_documents_are_judgements_and_excluded_ones_are_kept(tmp_path, shards):
    write(tmp_path / "hub", "biology", TEXTS, ROWS, shards)
    write(tmp_path / "hub", "pony", {"x": "another domain"}, [ROWS[0] | {"gold_ids": ["x"]}])
    entry = entry_of(tmp_path / "hub")
    collection = data_sets.load(entry)
    assert {row["id"]: row["text"] for row in collection.corpus.to_pylist()} == TEXTS
    excluded = {row["id"]: row["excluded_ids"] for row in collection.queries.to_pylist()}
    assert excluded == {"0": [], "1": ["b/2.txt"]}
    judged = sorted(tuple(row.values()) for row in collection.qrels["test"].to_pylist())
    assert judged == [("0", "a/1.txt", 1), ("0", "a/2.txt", 1), ("1", "b/1.txt", 1)]
    assert data_sets.report(entry).warnings() == ["1 repeated judgements were left out"]


def test_a_domain_that_is_not_there_is_named_with_those_that_are(tmp_path):
    write(tmp_path / "hub", "pony", TEXTS, ROWS)
    with pytest.raises(InputError, match=r"has no domain 'biology' \(it has pony\)"):
        data_sets.load(entry_of(tmp_path / "hub"))


def test_missing_columns_and_shards_are_told(tmp_path):
    write(tmp_path / "hub", "biology", TEXTS, ROWS, shards=2)
    (tmp_path / "hub" / "examples" / "biology-00001-of-00002.parquet").unlink()
    with pytest.raises(InputError, match="split 'biology' has 1 of its 2 files"):
        data_sets.load(entry_of(tmp_path / "hub"))
    pq.write_table(
        pa.table({"id": ["0"], "query": ["x"]}), tmp_path / "hub" / "examples" / "biology-00000-of-00001.parquet"
    )
    (tmp_path / "hub" / "examples" / "biology-00000-of-00002.parquet").unlink()
    with pytest.raises(InputError, match="has no column gold_ids or excluded_ids"):
        data_sets.load(entry_of(tmp_path / "hub"))


def test_a_folder_in_beirs_layout_is_read_too(tmp_path):
    folder = tmp_path / "local"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": key, "text": text} for key, text in TEXTS.items()]
    query = {"_id": "1", "text": "prove it", "metadata": {"excluded_ids": ["b/2.txt"]}}
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (folder / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tb/1.txt\t1\n")
    collection = data_sets.load(entry_of(folder))
    assert collection.queries["excluded_ids"].to_pylist() == [["b/2.txt"]]
    assert collection.qrels["test"].num_rows == 1


def official(shared_data, stem):
    """The lines of an official file, which may be packed."""
    [file] = [f for f in shared_data("topics_qrels").iterdir() if f.name.removesuffix(".gz") == stem]
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode().splitlines()


@pytest.mark.parametrize("name", [name for name in DATA_SETS if name.startswith("bright_")])
def test_official_topics_and_judgements_of_each_domain(tmp_path, shared_data, name):
    """All queries that the catalogue counts, each with a gold document, over a made-up corpus of the judged ones."""
    domain = name.removeprefix("bright_").replace("_", "-")
    queries = dict(line.split("\t", 1) for line in official(shared_data, f"topics.bright-{domain}.tsv"))
    judged = [line.split() for line in official(shared_data, f"qrels.bright-{domain}.txt")]
    gold = {query: [row[2] for row in judged if row[0] == query] for query in queries}
    rows = [{"id": i, "query": text, "gold_ids": gold[i], "excluded_ids": ["N/A"]} for i, text in queries.items()]
    config = DATA_SETS[name].config
    write(tmp_path / "hub", config, {row[2]: f"document {row[2]}" for row in judged}, rows)
    entry = DATA_SETS[name].read_from(f"path:{tmp_path / 'hub'}")
    entry = entry.model_copy(update={"counts": entry.counts.model_copy(update={"num_documents": None})})
    found = data_sets.fingerprint(entry, "test")  # refuses another number of queries
    assert found.num_pairs == found.num_queries == len(queries)
    assert data_sets.load(entry).qrels["test"].num_rows == len(judged)
