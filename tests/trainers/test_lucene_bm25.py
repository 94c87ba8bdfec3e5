"""BM25 as Lucene has it: terms and stems by hand, scores by hand, and a published figure to the digit."""

import math

import numpy as np
import pyarrow as pa
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS
from trainers.data_sets.collection import CORPUS
from trainers.evaluation.lucene_bm25 import bm25_ranking, kept_length, terms
from trainers.evaluation.porter_stemmer import stem
from trainers.evaluation.published_figures import compared_figures


@pytest.mark.parametrize(
    ("word", "stemmed"),  # the examples of Porter's paper, in the order of its steps
    [
        *(("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre")),
        *(
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
        ),
        *(("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss")),
        *(("fizzed", "fizz"), ("failing", "fail"), ("filing", "file"), ("happy", "happi"), ("sky", "sky")),
        *(("relational", "relat"), ("conditional", "condit"), ("rational", "ration"), ("digitizer", "digit")),
        *(("operator", "oper"), ("feudalism", "feudal"), ("hopefulness", "hope"), ("sensibiliti", "sensibl")),
        *(("triplicate", "triplic"), ("formative", "form"), ("electrical", "electr"), ("goodness", "good")),
        *(("revival", "reviv"), ("adjustable", "adjust"), ("replacement", "replac"), ("adoption", "adopt")),
        *(
            ("homologou", "homolog"),
            ("effective", "effect"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("cease", "ceas"),
        ),
        *(("controll", "control"), ("roll", "roll"), ("toy", "toi"), ("is", "is"), ("yellow", "yellow")),
    ],
)
def test_stems_are_porters(word, stemmed):
    assert stem(word) == stemmed


def test_terms_are_those_of_lucenes_english_analyzer():
    text = "The dog's U.S.A. won't cost 3.14 or 1,000; e-mail to_do naïve (Cells) of IL-2"
    assert terms(text) == [
        *("dog", "u.s.a", "won't", "cost", "3.14", "1,000", "e", "mail", "to_do", "naïv", "cell", "il", "2"),
    ]


def test_lengths_are_kept_as_by_lucenes_byte():
    """Values of org.apache.lucene.util.SmallFloat."""
    assert [kept_length(n) for n in (0, 1, 23, 24, 39, 40, 41, 42, 56, 57, 200, 1000)] == [
        *(0, 1, 23, 24, 39, 40, 40, 42, 56, 56, 200, 984),
    ]


def corpus(*texts: str) -> pa.Table:
    rows = [{"id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    return pa.Table.from_pylist(rows, CORPUS)


def test_a_ranking_by_hand():
    """Three documents of 4, 2 and 2 terms; "cat" stands in two of them, "dog" in one."""
    documents = corpus("cats sleep, cats eat", "a cat sleeps", "dogs bark")
    idf = {"cat": math.log(1 + 1.5 / 2.5), "dog": math.log(1 + 2.5 / 1.5)}
    norm = {length: 0.9 * (0.6 + 0.4 * length / (8 / 3)) for length in (2, 4)}
    by_hand = [idf["cat"] * 2 / (2 + norm[4]), idf["cat"] / (1 + norm[2]), idf["dog"] / (1 + norm[2])]
    assert by_hand[2] > by_hand[0] > by_hand[1]
    found = bm25_ranking(documents, ["cat and dog", "cat", "the bird", "dog cat cat cat"], 3, [[], [0], [], []])
    tripled = np.argsort([-3 * by_hand[0], -3 * by_hand[1], -by_hand[2]]).tolist()
    assert found.tolist() == [[2, 0, 1], [1, -1, -1], [-1, -1, -1], tripled]


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(40)]
    documents = corpus(*(" ".join(rng.choice(words, rng.integers(1, 60))) for _ in range(300)))
    queries = [" ".join(rng.choice(words, 4)) for _ in range(20)]
    whole = bm25_ranking(documents, queries, 10, [[]] * 20)
    monkeypatch.setattr("trainers.evaluation.lucene_bm25._BLOCK_CELLS", 20 * 37)
    assert np.array_equal(bm25_ranking(documents, queries, 10, [[]] * 20), whole)


@pytest.mark.slow
def test_scifact_has_its_published_figure_to_the_last_digit(shared_data):
    entry = DATA_SETS["scifact"].read_from(f"path:{shared_data('scifact')}")
    [compared] = compared_figures(entry)
    assert compared.agrees
    assert round(compared.found, 4) == 0.6789  # Pyserini's, of another implementation
    assert str(compared) == "BM25 has nDCG@10 0.6789 on test, as published (0.6789)"
