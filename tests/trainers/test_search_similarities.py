"""One encoding, one search: every similarity's rankings and scores, and how often documents are looked at for them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import DataSpec, EvaluationSpec
from trainers import data_sets
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.collection_search import search_collection
from trainers.evaluation.text_hashes import corpus_hashes
from trainers.init_regimes import start_encoder
from trainers.search import Searcher, tie_ranks
from trainers.search.cosines import CosineTiles
from trainers.similarity import scores

FIXED = [similarity for similarity in SIMILARITIES.values() if not similarity.trained]


@pytest.fixture
def made_up() -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 32)) * rng.uniform(0.3, 3, (n, 1)) for n in (12, 3000))
    return query_QH.astype(np.float32), document_NH.astype(np.float32), [f"d{n}" for n in range(3000)]


@pytest.mark.parametrize("similarity", FIXED, ids=lambda s: s.name)
def test_scores_are_those_of_the_similarity(made_up, similarity) -> None:
    query_QH, document_NH, ids = made_up
    searcher = Searcher(query_QH, 50, tie_rank_N=tie_ranks(ids), gammas_d=sorted({s.gamma_d for s in FIXED}))
    searcher.add(document_NH)
    found = searcher.rankings()[similarity.gamma_d]
    under = found.under(similarity.gamma_q, np.linalg.norm(query_QH, axis=1).astype(np.float32))
    assert under.document_QK is found.document_QK
    query, document = torch.from_numpy(query_QH), torch.from_numpy(document_NH)
    score_QN = scores(query, document, similarity.gamma_q, similarity.gamma_d).numpy()
    np.testing.assert_allclose(under.score_QK, np.take_along_axis(score_QN, found.document_QK, axis=1), rtol=3e-6)
    assert (np.sort(score_QN, axis=1)[:, -50] <= under.score_QK[:, -1] * (1 + 3e-6)).all()


def test_a_zero_query_scores_zero_under_every_similarity() -> None:
    searcher = Searcher(np.zeros((1, 2), np.float32), 3, tie_rank_N=tie_ranks(["a", "b"]))
    searcher.add(np.ones((2, 2), np.float32))
    for gamma_q in (0.0, 0.5, 1.0):
        under = searcher.rankings()[0.0].under(gamma_q, np.zeros(1, np.float32))
        assert under.score_QK.tolist() == [[0.0, 0.0, -np.inf]]


def test_all_similarities_cost_one_product_for_each_tile(made_up, monkeypatch: pytest.MonkeyPatch) -> None:
    products = []
    original = CosineTiles.of
    monkeypatch.setattr(CosineTiles, "of", lambda self, group: (products.append(group), original(self, group))[1])
    query_QH, document_NH, ids = made_up
    for gammas_d in ((0.0,), (0.0, 0.5, 1.0)):
        products.clear()
        searcher = Searcher(query_QH, 50, tie_rank_N=tie_ranks(ids), gammas_d=gammas_d)
        for start in range(0, 3000, 500):
            searcher.add(document_NH[start : start + 500])
        assert len(products) == 6


def test_an_evaluation_encodes_once_searches_once_and_ranks_once_per_gamma_d(
    minilm, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qrels").mkdir()
    texts = [f"report {number} on {word}" for number, word in enumerate(["mail", "keys", "disks", "logs"] * 5)]
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)) + "\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "disks"}) + "\n")
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td2\t1\n")
    entry = DataSet(name="small", source=f"path:{tmp_path}")
    evaluation = EvaluationSpec(data=DataSpec(entry=entry, split="test", content_hash=""))
    collection = data_sets.load(entry)
    asked = AskedCollection.of(evaluation, collection, corpus_hashes(collection.corpus))
    searchers = []
    original = Searcher.__init__
    monkeypatch.setattr(Searcher, "__init__", lambda self, *a, **k: (searchers.append(k), original(self, *a, **k))[1])
    gammas_d = sorted({similarity.gamma_d for similarity in FIXED})
    assert len(gammas_d) < len(FIXED)
    encoder = start_encoder(replace(minilm, layers=1), None)
    encoded = []
    encoder.register_forward_hook(lambda _, inputs, __: encoded.append(len(inputs[0])))
    found = search_collection(encoder, asked, gammas_d)
    assert sum(encoded) == len(texts) + 1
    assert len(searchers) == 1
    assert sorted(found.rankings) == gammas_d
