"""Search by brute force, and what it is asked for in several test modules."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from trainers.search import BACKENDS, Rankings

AVAILABLE = [
    pytest.param(backend, id=str(backend), marks=[pytest.mark.gpu] if backend.device == "cuda" else [])
    for backend in BACKENDS
    if backend.device == "cpu" or torch.cuda.is_available()
]


def brute_force(query_QH, document_NH, k: int, ids: Sequence[str], excluded=None) -> Rankings:
    """All pairs by a loop, sorted as trec_eval sorts: score descending, then the id's UTF-8 bytes descending."""
    documents, scores = [], []
    for row, query_H in enumerate(query_QH):
        hidden = set(excluded[row]) if excluded else set()
        found = []
        for position, document_H in enumerate(document_NH):
            if position not in hidden:
                exact = np.multiply(query_H, document_H, dtype=np.float64).sum()
                found.append((np.float32(exact) + np.float32(0), ids[position].encode(), position))
        found.sort(reverse=True)
        padded = [*found[:k], *[(np.float32(-np.inf), b"", -1)] * (k - len(found))]
        documents.append([position for _, _, position in padded])
        scores.append([score for score, _, _ in padded])
    return Rankings(document_QK=np.array(documents, np.int64), score_QK=np.array(scores, np.float32))


def assert_equal(found: Rankings, expected: Rankings) -> None:
    np.testing.assert_array_equal(found.document_QK, expected.document_QK)
    np.testing.assert_array_equal(found.score_QK.view(np.int32), expected.score_QK.view(np.int32))


def shuffled_ids(rng: np.random.Generator, num: int) -> list[str]:
    """Ids whose order as strings is not their order as numbers, with characters outside ASCII and the BMP."""
    alphabet = ["", "é", "z", " ", "𝔸", "￿"]
    return [f"{number}{alphabet[number % len(alphabet)]}" for number in rng.permutation(num)]


def unequal_blocks(document_NH, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Blocks of random sizes, some of them empty."""
    cuts = np.sort(rng.integers(0, len(document_NH) + 1, size=rng.integers(0, 6)))
    yield from np.split(document_NH, cuts)
