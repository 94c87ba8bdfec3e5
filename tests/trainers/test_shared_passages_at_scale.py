"""FEVER and Climate-FEVER in small: two collections of 200,000 passages, 95 % of them shared. No encoder is needed.

What is proved is order and hashes: each different passage is met once, each document finds its own text, and what the
bookkeeping takes is told by `tracemalloc`, which numpy reports to. That passages are then encoded once is shown on real
encoders in `test_shared_passages.py`.
"""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from trainers.evaluation.shared_texts import sharing_groups, text_order
from trainers.evaluation.text_hashes import corpus_hashes

NUM, SHARED = 200_000, 190_000
_PEAK_BYTES, _KEPT_BYTES = 80, 16  # per document, as docs/evaluation.md has them


def passages(numbers: np.ndarray) -> pa.Table:
    """Passages of these numbers, in an order of their own and with ids of their own."""
    texts = [f"{number} was born in {1000 + number % 1000}." for number in numbers.tolist()]
    return pa.table(
        {
            "id": pa.chunked_array([pa.array([f"d{place}" for place in range(len(texts))])]),
            "title": pa.chunked_array([pa.array([f"Person {number}" for number in numbers.tolist()])]),
            "text": pa.chunked_array([pa.array(texts)]),
        }
    )


@pytest.fixture(scope="module")
def numbers() -> list[np.ndarray]:
    """Of each collection the numbers of its passages; the second has 100 of them twice."""
    rng = np.random.default_rng(0)
    first, second = np.arange(NUM), np.arange(NUM - SHARED, 2 * NUM - SHARED)
    second[-100:] = second[:100]
    return [rng.permutation(first), rng.permutation(second)]


@pytest.fixture(scope="module")
def corpora(numbers) -> list[pa.Table]:
    return [passages(of_corpus) for of_corpus in numbers]


@pytest.fixture(scope="module")
def hashes(corpora) -> list[np.ndarray]:
    return [corpus_hashes(corpus) for corpus in corpora]


def test_each_different_passage_is_met_once_and_each_document_finds_its_own(numbers, corpora, hashes):
    order = text_order(hashes)
    different = np.unique(np.concatenate(numbers))
    assert len(order) == len(different) == 209_900  # by hand: 200,000 and 10,000 more, of which 100 are repeats
    met: list[str] = []
    for start in range(0, len(order), 16_384):
        met += order.texts(corpora, start, start + 16_384)
    assert len(met) == len(set(met)) == len(order)
    of_text = np.array([int(text.split()[1]) for text in met])
    for of_corpus, text_N in zip(numbers, order.text_SN, strict=True):
        assert np.array_equal(of_text[text_N], of_corpus)
    # The first collection's order is its own, so that its documents come as they lie on the disk.
    assert np.array_equal(order.text_SN[0], np.arange(NUM))


def test_collections_that_share_most_passages_are_one_pass_and_others_are_not(hashes):
    apart = corpus_hashes(passages(np.arange(10**7, 10**7 + 1000)))
    assert sharing_groups([hashes[0], apart, hashes[1]]) == [[0, 2], [1]]


def test_what_a_document_takes_is_bounded(hashes):
    tracemalloc.start()
    try:
        order = text_order(hashes)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    documents = sum(map(len, hashes))
    assert hashes[0].nbytes == 16 * NUM
    assert len(order.text_SN) == 2
    assert peak / documents < _PEAK_BYTES
    assert kept / documents < _KEPT_BYTES


def test_grouping_samples_what_is_too_many_to_hold(hashes):
    """Above a million passages together one in 16 is looked at: 8 bytes of it."""
    many = [np.concatenate([hashes[0] + np.uint64(shift) for shift in range(4)]) for _ in range(2)]
    tracemalloc.start()
    try:
        assert sharing_groups(many) == [[0, 1]]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / sum(map(len, many)) < 8
