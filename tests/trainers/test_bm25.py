"""BM25 of a corpus read in parts: terms by hand, the formula written out, one bm25s index, a published figure."""

import math
from itertools import pairwise

import bm25s
import numpy as np
import pyarrow as pa
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS
from trainers.evaluation import bm25
from trainers.evaluation.bm25 import K1, STOP_WORDS, B, bm25_top, terms_of
from trainers.evaluation.published_figures import compared_figures

WORDS = ["mail", "key", "disk", "log", "base64", "traffic", "logon", "the", "a", "worm", "über", "x"]  # their own stems


def corpus_of(texts: list[str]) -> pa.Table:
    return pa.table({"id": [f"d{n * 7 % 1000:03d}-{n}" for n in range(len(texts))], "title": [""] * len(texts),
                     "text": texts})  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> pa.Table:
    """Some texts stand twice, some are empty, some hold stop words alone."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(300)]
    return corpus_of([*texts, "", "the a x", *texts[:40]])


QUERIES = ["key on the disk", "über base64 base64 worm", "not known", "", "the a", "mail traffic logon"]


def terms(text: str) -> list[str]:
    return [word for word in text.split() if word not in STOP_WORDS]


def test_terms_are_those_of_lucenes_english_analyzer():
    text = "The dog's U.S.A. won't cost 3.14 or 1,000; e-mail to_do naïve (Cells) of IL-2 ponies' hopefulness, IT'S"
    assert terms_of([text, "", "The"]) == [
        [
            *("dog", "u.s.a", "won't", "cost", "3.14", "1,000", "e", "mail", "to_do", "naïv", "cell", "il", "2"),
            *("poni", "hope"),
        ],
        [],
        [],
    ]


def test_a_ranking_by_hand():
    """Three documents of 4, 2 and 2 terms; "cat" stands in two of them, "dog" in one."""
    documents = corpus_of(["cats sleep, cats eat", "a cat sleeps", "dogs bark"])
    idf = {"cat": math.log(1 + 1.5 / 2.5), "dog": math.log(1 + 2.5 / 1.5)}
    norm = {length: 0.9 * (0.6 + 0.4 * length / (8 / 3)) for length in (2, 4)}
    by_hand = [idf["cat"] * 2 / (2 + norm[4]), idf["cat"] / (1 + norm[2]), idf["dog"] / (1 + norm[2])]
    assert by_hand[2] > by_hand[0] > by_hand[1]
    found = bm25_top(documents, ["cat and dog", "cat", "the bird", "dog cat cat cat"], 3, excluded=[[], [0], [], []])
    tripled = np.argsort([-3 * by_hand[0], -3 * by_hand[1], -by_hand[2]]).tolist()
    assert found.tolist() == [[2, 0, 1], [1, -1, -1], [-1, -1, -1], tripled]


def scores_by_formula(corpus: pa.Table, query: str) -> list[float]:
    documents = [terms(text) for text in corpus["text"].to_pylist()]
    mean = sum(map(len, documents)) / len(documents)
    found = []
    for document in documents:
        score = 0.0
        for term in terms(query):
            holding, tf = sum(term in other for other in documents), document.count(term)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            score += idf * tf / (K1 * (1 - B + B * len(document) / mean) + tf)
        found.append(score)
    return found


@pytest.mark.parametrize("part", [16, 100, 100_000])
def test_the_best_are_those_of_the_formula(corpus, part, monkeypatch):
    monkeypatch.setattr(bm25, "PART_DOCUMENTS", part)
    found_QK = bm25_top(corpus, QUERIES, 10)
    assert found_QK.shape == (len(QUERIES), 10)
    for query, found_K in zip(QUERIES, found_QK, strict=True):
        scores = scores_by_formula(corpus, query)
        found = found_K[found_K >= 0].tolist()
        best = sorted(scores, reverse=True)[:10]
        np.testing.assert_allclose([scores[n] for n in found], [s for s in best if s > 0], rtol=1e-5)
        for earlier, later in pairwise(found):  # copies of a text: by id, descending
            if corpus["text"][earlier] == corpus["text"][later]:
                assert corpus["id"][earlier].as_py() > corpus["id"][later].as_py()


def test_parts_change_no_ranking(corpus, monkeypatch):
    monkeypatch.setattr(bm25, "PART_DOCUMENTS", 100_000)
    whole = bm25_top(corpus, QUERIES, 25)
    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(terms_of(corpus["text"].to_pylist()), show_progress=False)
    _, theirs = index.retrieve(terms_of(QUERIES[:1]), k=25, show_progress=False)
    ours = [scores_by_formula(corpus, QUERIES[0])[n] for n in whole[0]]
    np.testing.assert_allclose(ours, theirs[0], rtol=1e-5)
    monkeypatch.setattr(bm25, "PART_DOCUMENTS", 37)
    for one, other in zip(whole, bm25_top(corpus, QUERIES, 25), strict=True):
        assert one.tolist() == other.tolist()


def test_excluded_documents_leave_their_place_to_others(corpus):
    [best] = bm25_top(corpus, QUERIES[:1], 3)
    [others] = bm25_top(corpus, QUERIES[:1], 3, excluded=[[int(best[0]), int(best[1])]])
    assert others[0] == best[2]
    assert not {int(best[0]), int(best[1])} & set(others.tolist())


def test_more_are_asked_for_than_there_are():
    corpus = corpus_of(["keys and disks", "a log"])
    assert bm25_top(corpus, ["keys", "nothing"], 5).tolist() == [[0, -1, -1, -1, -1], [-1] * 5]
    assert bm25_top(corpus_of([]), ["keys"], 2).tolist() == [[-1, -1]]
    assert bm25_top(corpus_of(["", ""]), ["keys"], 2).tolist() == [[-1, -1]]
    assert bm25_top(corpus, [], 2).shape == (0, 2)


@pytest.mark.slow
def test_scifact_has_its_published_figure(shared_data):
    """Pyserini's is 0.6789, of Lucene itself, which rounds lengths."""
    entry = DATA_SETS["scifact"].read_from(f"path:{shared_data('scifact')}")
    [compared] = compared_figures(entry)
    assert compared.agrees
    assert compared.found == pytest.approx(0.6777, abs=1e-4)
    assert str(compared) == "BM25 has nDCG@10 0.6777 on test, as published (0.6789)"
