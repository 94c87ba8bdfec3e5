"""Training pairs of texts that a test writes down."""

from collections.abc import Iterable

import numpy as np

from trainers.arrays import Indices
from trainers.training.pairs import TrainingPairs, grouped


def pairs_of_texts(pairs: Iterable[tuple[str, str]], negatives: Iterable[tuple[str, str]] = ()) -> TrainingPairs:
    """Pairs in the given order, with each different text once; `negatives` are of queries that stand in a pair."""
    queries: dict[str, int] = {}
    documents: dict[str, int] = {}
    query_P, document_P = _numbered(pairs, queries, documents)
    query_N, document_N = _numbered(negatives, queries, documents)
    assert len(queries) == query_P.max(initial=-1) + 1, "every query stands in a pair"
    return TrainingPairs(
        query_index=query_P,
        document_index=document_P,
        query_texts=tuple(queries),
        document_texts=tuple(documents),
        negatives=grouped(query_N, document_N, len(queries)),
    )


def _numbered(
    pairs: Iterable[tuple[str, str]], queries: dict[str, int], documents: dict[str, int]
) -> tuple[Indices, Indices]:
    """The numbers of both sides' texts; a new text gets the next number."""
    numbers = [(queries.setdefault(q, len(queries)), documents.setdefault(d, len(documents))) for q, d in pairs]
    first, second = np.asarray(numbers, dtype=np.int64).reshape(-1, 2).T.copy()
    return first, second
