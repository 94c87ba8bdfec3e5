"""Passages that several data sets share: encoded once, with the rows that each data set has by itself."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from results.layout import norm_rows, per_query_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec
from tests.trainers.evaluating import evaluate
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.evaluation import corpus_pass, shared_texts
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.shared_texts import sharing_groups, text_order
from trainers.evaluation.text_hashes import corpus_hashes, stored_corpus_hashes
from trainers.init_regimes import start_encoder

SUBJECTS = ["malware", "the group", "a loader", "an implant", "the operator", "a worm", "this backdoor"]
ACTIONS = ["encodes traffic", "runs a task", "steals passwords", "hides files", "scans the network", "waits an hour"]
MEANS = ["with base64", "at logon", "from memory", "over DNS", "in the registry"]
SENTENCES = [f"{s} {a} {m}" for m in MEANS for a in ACTIONS for s in SUBJECTS]


def write_beir(folder: Path, documents: Sequence[tuple[str, str]], num_queries: int = 8) -> Path:
    """Documents as (title, text). A query has half of a document's words; that document and others answer it."""
    (folder / "qrels").mkdir(parents=True)
    ids = [f"d{number * 31 % len(documents)}-{number}" for number in range(len(documents))]
    corpus = [{"_id": k, "title": title, "text": text} for k, (title, text) in zip(ids, documents, strict=True)]
    chosen = list(range(0, len(ids), max(1, len(ids) // num_queries)))[:num_queries]
    queries = [{"_id": f"q{n}", "text": " ".join(documents[n][1].split()[::2])} for n in chosen]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in queries))
    rows = "".join(f"q{n}\t{ids[(n + step) % len(ids)]}\t1\n" for n in chosen for step in (0, 7, 11))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def evaluation_of(folder: Path) -> EvaluationSpec:
    entry = DataSet(name=folder.name, source=f"path:{folder}", measures=("nDCG@10", "R@5", "RR"))
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    return EvaluationSpec(data=DataSpec(entry=entry, split="test", content_hash=content_hash), score_similarities="all")


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    encoder = start_encoder(replace(minilm, layers=2, document_prompt="passage: "), None)
    save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None)
    return folder


@pytest.fixture(scope="module")
def sharing(tmp_path_factory) -> list[EvaluationSpec]:
    """One corpus twice, most of it once more in another order and with more, and one that shares nothing.

    The first has texts twice, and title and text that are cut in different places and still are one passage.
    """
    folder = tmp_path_factory.mktemp("sharing")
    plain = [("", text) for text in SENTENCES[:90]]
    first = [*plain, *plain[:5], ("malware", SENTENCES[0].removeprefix("malware ")), ("", ""), ("", " ")]
    rng = np.random.default_rng(0)
    third = [first[index] for index in rng.permutation(len(first))[:70]] + [("", t) for t in SENTENCES[90:130]]
    apart = [("other", text) for text in SENTENCES[130:180]]
    folders = {"first": first, "second": first, "third": third, "apart": apart}
    return [evaluation_of(write_beir(folder / name, documents)) for name, documents in folders.items()]


def rows_of(checkpoint: Path, evaluation: EvaluationSpec, store) -> list[list[dict]]:
    key = checkpoint_hash(checkpoint)
    return [
        read_rows(store, per_query_rows(evaluation_id(key, evaluation, similarity)), "per_query").to_pylist()
        for similarity in score_similarities(None, evaluation)
    ]


def norms_of(checkpoint: Path, evaluation: EvaluationSpec, store) -> pa.Table:
    return read_rows(store, norm_rows(encoding_id(checkpoint_hash(checkpoint), evaluation)), "norms")


def different_texts(*evaluations: EvaluationSpec) -> int:
    corpora = [data_sets.load(evaluation.data.entry).corpus.to_pylist() for evaluation in evaluations]
    return len({f"{row['title']} {row['text']}".strip() for corpus in corpora for row in corpus})


@pytest.mark.parametrize("shard", [pytest.param(16_384, marks=pytest.mark.slow), 13])
def test_shared_passages_are_encoded_once_and_give_the_same_rows(
    sharing, checkpoint, tmp_path, monkeypatch, shard: int
) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", shard)
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in sharing}
    encoder, encoded, said = load_checkpoint(checkpoint).encoder, [], []
    encoder.register_forward_hook(lambda _, inputs, __: encoded.append(len(inputs[0])))
    together = open_store(str(tmp_path / "together"))
    evaluate_all(checkpoint, wanted, store=together, encoder=encoder, say=said.append)
    num_queries = sum(len(rows) for evaluation in sharing for rows in rows_of(checkpoint, evaluation, together)[:1]) / 3
    assert sum(encoded) - num_queries == different_texts(*sharing[:3]) + different_texts(sharing[3])
    assert said == ["evaluating first, second, third", "evaluating apart"]
    assert together.list("unfinished") == []
    for evaluation in sharing:
        alone = open_store(str(tmp_path / "alone" / evaluation.data.name))
        evaluate(checkpoint, evaluation, wanted[evaluation], store=alone)
        found, expected = (rows_of(checkpoint, evaluation, store) for store in (together, alone))
        assert found == expected
        values = [row["value"] for rows in found for row in rows]
        assert 0.2 < np.mean(values) < 1
        found, expected = (norms_of(checkpoint, evaluation, store) for store in (together, alone))
        assert found.drop_columns("norm") == expected.drop_columns("norm")
        np.testing.assert_allclose(found["norm"].to_numpy(), expected["norm"].to_numpy(), rtol=1e-5)


def test_equal_passages_have_equal_embeddings_whatever_shard_they_are_in(
    sharing, checkpoint, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", 13)
    store = open_store(str(tmp_path))
    evaluate(checkpoint, sharing[0], score_similarities(None, sharing[0])[:1], store=store)
    table = norms_of(checkpoint, sharing[0], store).to_pylist()
    norm = {row["text_id"]: row["norm"] for row in table if row["side"] == "document"}
    ids = data_sets.load(sharing[0].data.entry).corpus["id"].to_pylist()
    assert [norm[key] for key in ids[90:96]] == [norm[key] for key in [*ids[:5], ids[0]]]
    assert norm[ids[96]] == norm[ids[97]]


def test_text_order_names_each_text_where_it_stands_first() -> None:
    corpora = [["a", "b", "a", "c"], ["c", "d"], ["a", "b", "a", "c"], [], ["e", "d", "a", "e"]]
    tables = [
        pa.table(
            {"id": [str(i) for i in range(len(c))], "title": pa.array([""] * len(c)), "text": pa.array(c, pa.string())}
        )
        for c in corpora
    ]
    order = text_order([corpus_hashes(table) for table in tables])
    texts = order.texts(tables, 0, len(order))
    assert texts == ["a", "b", "c", "d", "e"]
    assert [order.texts(tables, i, i + 2) for i in range(0, 5, 2)] == [["a", "b"], ["c", "d"], ["e"]]
    assert [[texts[i] for i in text_N.tolist()] for text_N in order.text_SN] == corpora
    assert order.text_SN[0] is order.text_SN[2]


@pytest.mark.parametrize("seed", range(20))
def test_text_order_of_random_corpora(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corpora = [[f"text {n}" for n in rng.integers(0, 60, rng.integers(1, 50))] for _ in range(rng.integers(1, 5))]
    tables = [
        pa.Table.from_batches(pa.table({"id": c, "title": [""] * len(c), "text": c}).to_batches(max_chunksize=7))
        for c in corpora
    ]
    order = text_order([corpus_hashes(table) for table in tables])
    expected = list(dict.fromkeys(text for corpus in corpora for text in corpus))
    step = int(rng.integers(1, 30))
    assert [t for i in range(0, len(order), step) for t in order.texts(tables, i, i + step)] == expected
    assert [[expected[i] for i in text_N.tolist()] for text_N in order.text_SN] == corpora


def test_data_sets_that_share_enough_are_a_group(monkeypatch) -> None:
    def hashes(*texts: range) -> np.ndarray:
        values = [f"text {n}" for numbers in texts for n in numbers]
        return corpus_hashes(pa.table({"id": values, "title": [""] * len(values), "text": values}))

    corpora = [
        hashes(range(1000)),
        hashes(range(2000, 2100)),
        hashes(range(990, 1190)),  # a twentieth of it is in the first
        hashes(range(2097, 2200), range(999, 1000)),  # too little of any: 3 of 104, and 1
        hashes(range(1100, 1110)),  # all of it is in the third
    ]
    assert sharing_groups(corpora) == [[0, 2, 4], [1], [3]]
    assert sharing_groups([]) == []
    assert sharing_groups([corpora[0], corpora[0][:0], corpora[0]]) == [[0, 2], [1]]
    monkeypatch.setattr(shared_texts, "_EXACT_TEXTS", 10)
    assert sharing_groups([corpora[0], corpora[1], corpora[0][500:]]) == [[0, 2], [1]]


def test_hashes_are_those_of_the_texts_as_they_are_encoded(sharing) -> None:
    entry = sharing[0].data.entry
    corpus = data_sets.load(entry).corpus
    found = corpus_hashes(corpus)
    assert found[95].tolist() == found[0].tolist()  # title and text together
    assert len(np.unique(found, axis=0)) == different_texts(sharing[0])
    for _ in range(2):  # computed, then mapped
        np.testing.assert_array_equal(stored_corpus_hashes(entry, corpus), found)
