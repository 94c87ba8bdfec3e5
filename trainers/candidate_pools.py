"""The candidate pools of a probe: which queries and documents are held against each other, decided by content alone.

A pool is what a batch of training without hard negatives is: queries with one positive each, every positive being a
candidate of every query. Pools share no query, so they can be left out one at a time.

Suffixes: P pools, C pairs of a pool (the number of queries, and of candidates).
"""

import numpy as np
from numpy.typing import NDArray

from trainers.data_sets.hashing import text_hash
from trainers.pairs import TrainingPairs


def plan_pools(pairs: TrainingPairs, *, num_queries: int, candidates_per_query: int) -> NDArray[np.int64]:
    """The pair indices of every pool, int64 [P, C]: the same for every model, seed and similarity.

    Queries come in the order of their texts' SHA-256, which is as good as a random one, each with the relevant
    document of the smallest hash. Only whole pools are made, of at most `num_queries` queries.

    Raises:
        ValueError: not one pool can be filled.
    """
    chosen = _one_pair_per_query(pairs)
    num_pools = min(num_queries, len(chosen)) // candidates_per_query
    if not num_pools:
        raise ValueError(
            f"candidates_per_query is {candidates_per_query}, but num_queries is {num_queries} and the training data "
            f"has {len(chosen)} different queries: they do not fill one pool"
        )
    return chosen[: num_pools * candidates_per_query].reshape(num_pools, candidates_per_query)


def _one_pair_per_query(pairs: TrainingPairs) -> NDArray[np.int64]:
    """One pair of each query, int64, ordered by the hash of the query's text."""
    query_hashes = [text_hash(text) for text in pairs.query_texts]
    document_hashes = [text_hash(text) for text in pairs.document_texts]
    keys = [
        (query_hashes[query], document_hashes[document])
        for query, document in zip(pairs.query_index.tolist(), pairs.document_index.tolist(), strict=True)
    ]
    first_of_query: dict[str, int] = {}
    for index in sorted(range(len(pairs)), key=keys.__getitem__):
        first_of_query.setdefault(keys[index][0], index)
    return np.fromiter(first_of_query.values(), dtype=np.int64)
