"""Retrieval collections in the forms of the hub, from local folders laid out like it. No network."""

import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, Answers, DataSet
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.collection import asked_queries

DOCUMENTS = [("d1", "Apples", "grow on trees"), ("d2", "", "Potatoes grow in the ground"), ("d3", "Pears", "ripen")]
QUERIES = [("q1", "where do apples grow?"), ("q2", "When are pears ripe")]
JUDGEMENTS = [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1), ("q2", "d1", -1)]
CARD = """---
license: cc-by-sa-4.0
configs:
- config_name: default
  data_files:
  - {split: test, path: QRELS}
- config_name: corpus
  data_files: [{split: corpus, path: CORPUS}]
- config_name: queries
  data_files: [{split: queries, path: ['QUERIES']}]
---
# A card
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def card(corpus, queries, qrels):
    return CARD.replace("CORPUS", corpus).replace("QUERIES", queries).replace("QRELS", qrels)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def document_rows(key):
    return [{key: i, "title": title, "text": text} for i, title, text in DOCUMENTS]


def query_rows(key):
    return [{key: i, "text": text} for i, text in QUERIES]


def judgement_rows(grade=int):
    return [{"query-id": q, "corpus-id": d, "score": grade(g)} for q, d, g in JUDGEMENTS]


def mteb_jsonl(folder):
    """As mteb/scifact is: a card, corpus.jsonl, queries.jsonl and qrels/SPLIT.jsonl."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "README.md").write_text(card("corpus.jsonl", "queries.jsonl", "qrels/test.jsonl"))
    (folder / "corpus.jsonl").write_bytes(lines(document_rows("_id")))
    (folder / "queries.jsonl").write_bytes(lines(query_rows("_id")))
    (folder / "qrels" / "test.jsonl").write_bytes(lines(judgement_rows(float)))
    return {}


def mteb_parquet(folder):
    """As mteb/CQADupstackAndroidRetrieval is: a card, and parquet files in a folder for each config."""
    text = card("corpus/test-*", "queries/test-*", "qrels/test-*").replace("config_name: default", "config_name: qrels")
    folder.mkdir()
    (folder / "README.md").write_text(text)
    rows = {"corpus": document_rows("id"), "queries": query_rows("id"), "qrels": judgement_rows()}
    for name, of_config in rows.items():
        (folder / name).mkdir()
        for shard in range(2):
            table = pa.Table.from_pylist(of_config[shard::2])
            pq.write_table(table, folder / name / f"test-{shard:05d}-of-00002.parquet")
    return {}


def beir_repositories(folder):
    """As BeIR/scifact and BeIR/scifact-qrels are: packed JSON Lines that no card speaks of, and TSV files apart."""
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n")
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(lines(document_rows("_id"))))
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(lines(query_rows("_id"))))
    qrels = folder.parent / "hub-qrels"
    qrels.mkdir()
    text = "".join(f"{q}\t{d}\t{g}\n" for q, d, g in JUDGEMENTS)
    (qrels / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + text)
    return {"qrels_source": f"path:{qrels}"}


def beir_folder(folder):
    """A local folder in BEIR's layout, without a card."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(lines(document_rows("_id")))
    (folder / "queries.jsonl").write_bytes(lines(query_rows("_id")))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{q}\t{d}\t{g}\n" for q, d, g in JUDGEMENTS))
    return {}


def trec_files(folder):
    """Topics of two columns and judgements of TREC's four, with the corpus somewhere else."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in QUERIES))
    (folder / "qrels" / "test.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in JUDGEMENTS))
    corpus = folder.parent / "hub-corpus"
    corpus.mkdir()
    (corpus / "corpus.jsonl").write_bytes(lines(document_rows("_id")))
    return {"corpus_source": f"path:{corpus}"}


FORMS = [mteb_jsonl, mteb_parquet, beir_repositories, beir_folder, trec_files]


def made(tmp_path, form, **changes):
    changes = {**form(tmp_path / "hub"), **changes}
    values = {"name": "mine", "source": f"path:{tmp_path / 'hub'}", "config": "default", "reader": "hub_retrieval"}
    return DataSet(**values | changes)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_collection(tmp_path, form):
    entry = made(tmp_path, form)
    collection = data_sets.load(entry)
    corpus = sorted((r["id"], r["title"], r["text"]) for r in collection.corpus.to_pylist())
    assert corpus == sorted(DOCUMENTS)
    assert sorted((r["id"], r["text"]) for r in collection.queries.to_pylist()) == sorted(QUERIES)
    assert set(collection.qrels) == {"test"}
    judged = sorted(tuple(row.values()) for row in collection.qrels["test"].to_pylist())
    assert judged == sorted((q, d, max(g, 0)) for q, d, g in JUDGEMENTS)
    assert data_sets.report(entry).warnings() == []


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_file_is_another_collection(tmp_path, form):
    entry = made(tmp_path, form)
    before = data_sets.fingerprint(entry, "test").content_hash
    file = min(f for f in (tmp_path / "hub").rglob("*") if f.is_file() and "queries" in str(f.relative_to(tmp_path)))
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"id": ["q1"], "text": ["another"]}), file)
    elif file.suffix == ".gz":
        file.write_bytes(gzip.compress(lines([*query_rows("_id")[:1], {"_id": "q2", "text": "another"}])))
    else:
        file.write_text(file.read_text().replace("pears", "quinces"))
    assert data_sets.fingerprint(entry, "test").content_hash != before


def test_what_is_judged_but_not_there_is_told_and_not_refused(tmp_path):
    """ArguAna judges five documents that its corpus does not have; their queries count, and nobody finds them."""
    entry = made(tmp_path, beir_folder)
    with (tmp_path / "hub" / "qrels" / "test.tsv").open("a") as file:
        file.write("q2\tgone\t1\n")
    assert data_sets.report(entry).warnings() == ["1 judged documents are not in the corpus, and count as not found"]
    assert data_sets.fingerprint(entry, "test").num_queries == 2
    with pytest.raises(InputError, match=r"document 'gone': it is judged here, but it is not in corpus\.jsonl"):
        data_sets.load(entry.model_copy(update={"reader": "beir"}))


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("corpus.jsonl", '{"_id": "d9"}', "'text' or 'contents' is missing (it has _id)"),
        ("corpus.jsonl", '{"_id": "", "text": "x"}', "'_id' is empty"),
        ("corpus.jsonl", "{", "this is not JSON"),
        ("queries.jsonl", '{"_id": "q9", "text": 3.5}', "'text' must be text, not 3.5"),
        ("queries.jsonl", '{"_id": "q9", "text": "x", "metadata": {"answers": "x"}}', "a list of texts is expected"),
        ("qrels/test.tsv", "q1\td3\tgood", "the score must be a whole number, not 'good'"),
        ("qrels/test.tsv", "q1\td3", "the score must be a whole number, not None"),
        ("qrels/test.tsv", "q7\td3\t1", "query 'q7': it is judged here, but it is not in queries.jsonl"),
        ("qrels/test.tsv", "q1\td1\t1", "document 'd1' is judged 2 times for it"),
    ],
)
def test_faults_name_their_file_and_line(tmp_path, file, line, message):
    entry = made(tmp_path, beir_folder)
    with (tmp_path / "hub" / file).open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(InputError, match=re.escape(message)) as error:
        data_sets.load(entry)
    assert file.rpartition("/")[2] in str(error.value)


def test_a_damaged_file_is_told(tmp_path):
    entry = made(tmp_path, beir_repositories)
    packed = tmp_path / "hub" / "corpus.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"corpus\.jsonl\.gz is damaged or was not fetched whole"):
        data_sets.load(entry)


def test_what_is_not_there_is_named(tmp_path):
    entry = made(tmp_path, beir_folder)
    (tmp_path / "hub" / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"has no queries \(looked for queries\.\*, queries/\*\); copy it again"):
        data_sets.load(entry)


def test_answers_from_a_file_apart_are_joined_by_the_words_of_the_question(tmp_path):
    (tmp_path / "qa").mkdir()
    rows = [
        {"id": "test_0", "question": "Where do apples grow", "golden_answers": ["on trees", "trees", "on trees", " "]},
        {"id": "test_1", "question": "who asked this", "golden_answers": ["nobody"]},
    ]
    (tmp_path / "qa" / "test.jsonl").write_bytes(lines(rows))
    entry = made(tmp_path, mteb_jsonl, answers=Answers(source=f"path:{tmp_path / 'qa'}", file="test.jsonl"))
    queries = {row["id"]: row["answers"] for row in data_sets.load(entry).queries.to_pylist()}
    assert queries == {"q1": ["on trees", "trees"], "q2": []}
    assert data_sets.report(entry).warnings() == ["1 judged questions without an answer"]
    before = data_sets.fingerprint(entry, "test").content_hash
    rows[0]["golden_answers"] = ["on the ground"]
    (tmp_path / "qa" / "test.jsonl").write_bytes(lines(rows))
    assert data_sets.fingerprint(entry, "test").content_hash != before


def without_negative_grades(folder):
    """The reader of BEIR folders refuses them, since nobody there means them."""
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t2\nq2\td3\t1\n")


def test_answers_in_the_metadata_of_a_question_are_read(tmp_path):
    entry = made(tmp_path, beir_folder)
    without_negative_grades(tmp_path / "hub")
    rows = [{**row, "metadata": {"answers": ["yes"], "excluded_ids": ["d2"]}} for row in query_rows("_id")]
    (tmp_path / "hub" / "queries.jsonl").write_bytes(lines(rows))
    for reader in ("hub_retrieval", "beir"):
        [first, _] = data_sets.load(entry.model_copy(update={"reader": reader})).queries.to_pylist()
        assert (first["answers"], first["excluded_ids"]) == (["yes"], ["d2"])


def test_collections_without_answers_have_no_column_of_them(tmp_path):
    entry = made(tmp_path, beir_folder)
    without_negative_grades(tmp_path / "hub")
    for reader in ("hub_retrieval", "beir"):
        assert "answers" not in data_sets.load(entry.model_copy(update={"reader": reader})).queries.column_names


def test_both_readers_of_a_beir_folder_give_one_hash(tmp_path):
    entry = made(tmp_path, beir_folder)
    without_negative_grades(tmp_path / "hub")
    hashes = {data_sets.fingerprint(entry.model_copy(update={"reader": r}), "test") for r in ("hub_retrieval", "beir")}
    assert len(hashes) == 1


OFFICIAL = ["arguana", "fiqa", "nfcorpus", "quora", "scidocs", "scifact", "trec-covid", "webis-touche2020"]


def write_official(folder, topics, qrels):
    """Official topics and judgements as they are, over a made-up corpus of the judged documents."""
    (folder / "qrels").mkdir(parents=True)
    unpacked = [gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes() for f in (topics, qrels)]
    (folder / "queries.tsv").write_bytes(unpacked[0])
    (folder / "qrels" / "test.txt").write_bytes(unpacked[1])
    judged = sorted({line.split()[2].decode() for line in unpacked[1].splitlines()})
    (folder / "corpus.jsonl").write_bytes(lines([{"_id": i, "text": f"document {i}"} for i in judged]))


def official_entry(name, folder):
    """The catalogue's entry over that folder, its documents uncounted."""
    entry = DATA_SETS[name].read_from(f"path:{folder}")
    return entry.model_copy(update={"counts": entry.counts.model_copy(update={"num_documents": None})})


def found_file(folder, stem):
    return next(f for f in folder.iterdir() if f.name.removesuffix(".gz") == stem)


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_beir_judgements_have_the_catalogues_counts(tmp_path, shared_data, name):
    files = shared_data("topics_qrels")
    topics = found_file(files, f"topics.beir-v1.0.0-{name}.test.tsv")
    qrels = found_file(files, f"qrels.beir-v1.0.0-{name}.test.txt")
    write_official(tmp_path / "hub", topics, qrels)
    entry = official_entry(name, tmp_path / "hub")
    [counted] = entry.counts.splits
    found = data_sets.fingerprint(entry, "test")  # refuses other counts
    assert (found.num_queries, found.num_pairs) == (counted.num_queries, counted.num_queries)


@pytest.mark.parametrize(
    ("year", "topics", "qrels", "num_pairs", "num_judgements"),
    [
        (2019, "topics.dl19-passage.txt", "qrels.dl19-passage.txt", 43, 9_260),
        (2020, "topics.dl20.txt", "qrels.dl20-passage.txt", 54, 11_386),
    ],
)
def test_official_deep_learning_tracks(tmp_path, shared_data, year, topics, qrels, num_pairs, num_judgements):
    files = shared_data("topics_qrels")
    write_official(tmp_path / "hub", found_file(files, topics), found_file(files, qrels))
    entry = official_entry(f"trec_dl_{year}", tmp_path / "hub")
    collection = data_sets.load(entry)
    assert asked_queries(collection, "test").num_rows == {2019: 43, 2020: 54}[year]
    assert data_sets.fingerprint(entry, "test").num_pairs == num_pairs
    assert collection.qrels["test"].num_rows == num_judgements
    assert set(collection.qrels["test"]["relevance"].to_pylist()) == {0, 1, 2, 3}


def test_another_number_of_relevant_judgements_is_refused(tmp_path, shared_data):
    files = shared_data("topics_qrels")
    qrels = found_file(files, "qrels.beir-v1.0.0-scifact.test.txt")
    write_official(tmp_path / "hub", found_file(files, "topics.beir-v1.0.0-scifact.test.tsv"), qrels)
    judged = (tmp_path / "hub" / "qrels" / "test.txt").read_text().splitlines()
    (tmp_path / "hub" / "qrels" / "test.txt").write_text("\n".join(judged[:-1]) + "\n")
    with pytest.raises(InputError, match="relevant judgements of 'test': 338 are built where the catalogue has 339"):
        data_sets.load(official_entry("scifact", tmp_path / "hub"))
