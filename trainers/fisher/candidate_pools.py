"""The candidate pools of a probe: which queries and documents are held against each other, decided by content alone.

A pool is what a batch of training without hard negatives is: queries with one positive each, every positive being a
candidate of every query. Pools share no query, so they can be left out one at a time.

Suffixes: P pools, C pairs of a pool (the number of queries, and of candidates), S pairs that are held out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainers.data_sets.hashing import text_hash
from trainers.training.pairs import TrainingPairs

# Four times the largest subspace. Principal directions of the pools' own texts would fit their noise: simulated
# intervals in such a subspace covered 0.27 to 0.99 of the true differences, in one of held-out pairs 0.93 to 0.99.
NUM_HELD_OUT = 256
_FEWEST = 2  # candidates of a query: with one there is nothing to tell apart


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbePairs:
    """Indices of training pairs: int64 [P, C] of every pool, and int64 [S] of the pairs that give the subspace."""

    pool_PC: NDArray[np.int64]
    held_out_S: NDArray[np.int64]


def plan_pools(pairs: TrainingPairs, *, num_queries: int, candidates_per_query: int) -> ProbePairs:
    """The pairs of a probe: the same for every model, seed and similarity, and no query twice.

    Queries come in the order of their texts' SHA-256, which is as good as a random one, each with the relevant
    document of the smallest hash. The last NUM_HELD_OUT of them (a third of all, if that is less) are held out; of
    the first, whole pools are made, of at most `num_queries` queries.

    Raises:
        ValueError: not one pool can be filled, or no pair held out.
    """
    chosen = _one_pair_per_query(pairs)
    num_pools, num_held_out = pool_sizes(
        len(chosen), num_queries=num_queries, candidates_per_query=candidates_per_query
    )
    return ProbePairs(
        pool_PC=chosen[: num_pools * candidates_per_query].reshape(num_pools, candidates_per_query),
        held_out_S=chosen[len(chosen) - num_held_out :],
    )


def pool_sizes(num_different: int, *, num_queries: int, candidates_per_query: int) -> tuple[int, int]:
    """How many pools `num_different` queries fill, and how many pairs are held out.

    Raises:
        ValueError: not one pool can be filled, or no pair held out.
    """
    num_held_out = min(NUM_HELD_OUT, num_different // 3)
    num_pools = min(num_queries, num_different - num_held_out) // candidates_per_query
    if not num_pools or not num_held_out:
        most = min(num_queries, num_different - num_held_out)
        fitting = f"write {most} or less" if num_held_out and most >= _FEWEST else "take other training data"
        raise ValueError(
            f"candidates_per_query is {candidates_per_query} and num_queries {num_queries}, but the training data has "
            f"{num_different} different queries, of which {num_held_out} are held out: they do not fill one pool "
            f"({fitting})"
        )
    return num_pools, num_held_out


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
