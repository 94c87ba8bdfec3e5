"""Hard negatives of planned batches: drawn by seed from those of each query, filled up at random where they are few.

Suffixes: S steps, B pairs of a batch, K hard negatives of a query, W the most negatives that a query of a batch has.
"""

import numpy as np
from numpy.typing import NDArray

from trainers.training.pairs import TrainingPairs

_OWN_NUMBERS = 1  # so that the negatives do not follow the permutation of the pairs, which has the same seed


def check_negatives(pairs: TrainingPairs, hard_negatives: int) -> None:
    """Raise ValueError where the training data cannot give so many hard negatives for each query.

    Some query must have as many; for the others there must be other documents that are not relevant to them.
    """
    if fault := negatives_fault(int(pairs.negatives.counts.max(initial=0)), hard_negatives):
        raise ValueError(f"hard_negatives is {fault}")
    irrelevant_G = len(pairs.document_texts) - pairs.relevant_documents.counts
    if hard_negatives and irrelevant_G.min() < hard_negatives:
        query = int(irrelevant_G.argmin())
        raise ValueError(
            f"hard_negatives is {hard_negatives}, but the training data has only {irrelevant_G[query]} documents that "
            f"are not relevant to the query {pairs.query_texts[query]!r}"
        )


def negatives_fault(most_negatives: int, hard_negatives: int, data: str = "the training data") -> str | None:
    """What is wrong with asking for so many where no query has more than `most_negatives`; None if nothing is."""
    if hard_negatives <= most_negatives:
        return None
    if most_negatives == 0:
        where = "documents judged below the relevance threshold, negatives/SPLIT.tsv, or a field of the data"
        return f"{hard_negatives}, but {data} has no negatives ({where})"
    return f"{hard_negatives}, but no query of {data} has more than {most_negatives} negatives"


def draw_negatives(
    pairs: TrainingPairs, pair_SB: NDArray[np.int64], hard_negatives: int, seed: int
) -> tuple[NDArray[np.int64], int]:
    """Hard negatives of each query of each batch, int64 [S, B, K], and how many of them are random documents.

    They are drawn anew for each batch, without replacement. A query that has fewer than K gets all of them, then
    random documents of the training data (of its pairs and negatives) that are not relevant to it.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_OWN_NUMBERS,))))
    negative_SBK = np.empty((*pair_SB.shape, hard_negatives), dtype=np.int64)
    num_random = 0
    if hard_negatives:
        for pair_B, negative_BK in zip(pair_SB, negative_SBK, strict=True):
            num_random += _draw(pairs, pairs.query_index[pair_B], negative_BK, generator)
    return negative_SBK, num_random


def _draw(
    pairs: TrainingPairs, query_B: NDArray[np.int64], into_BK: NDArray[np.int64], generator: np.random.Generator
) -> int:
    """Draw one batch's hard negatives; how many are random documents."""
    num_drawn = into_BK.shape[1]
    count_B = pairs.negatives.counts[query_B]
    # Of random keys, one for each negative, the smallest are drawn; those behind a query's last negative come last.
    key_BW = generator.random((len(query_B), max(num_drawn, int(count_B.max()))))
    key_BW[np.arange(key_BW.shape[1]) >= count_B[:, np.newaxis]] = 2.0
    place_BK = np.argsort(key_BW, axis=1, kind="stable")[:, :num_drawn]
    there_BK = place_BK < count_B[:, np.newaxis]
    start_B1 = pairs.negatives.offsets[query_B][:, np.newaxis]
    into_BK[:] = pairs.negatives.values_V[np.where(there_BK, start_B1 + place_BK, 0)]
    for row in np.flatnonzero(count_B < num_drawn):
        into_BK[row, count_B[row] :] = _others(pairs, int(query_B[row]), num_drawn - int(count_B[row]), generator)
    return int(np.maximum(num_drawn - count_B, 0).sum())


def _others(pairs: TrainingPairs, query: int, num_others: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Different random documents that are neither relevant to the query nor among its negatives."""
    taken = np.union1d(pairs.relevant_documents[query], pairs.negatives[query])
    place = generator.choice(len(pairs.document_texts) - len(taken), size=num_others, replace=False)
    # The place-th document that is not taken: step over the taken ones before it.
    return place + np.searchsorted(taken - np.arange(len(taken)), place, side="right")
