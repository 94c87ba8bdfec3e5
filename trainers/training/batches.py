"""Which pairs and hard negatives stand in which batch: known before training, the same on every rank.

Ranks that find out on the way wait for each other for ever (sentence-transformers#3348).

Suffixes: S steps, B pairs of a batch, K hard negatives of a query, P pairs, Q queries and D documents of a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from trainers.training.grouped import ranges
from trainers.training.hard_negatives import check_negatives, draw_negatives
from trainers.training.pairs import TrainingPairs


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchPlan:
    """Every batch of a training.

    Attributes:
        pair_SB: int64 [S, B], the pairs.
        negative_SBK: int64 [S, B, K], of each pair's query its hard negatives, indices into `document_texts`.
        num_random: how many numbers of `negative_SBK` are random documents in place of negatives that are lacking.
    """

    pair_SB: NDArray[np.int64]
    negative_SBK: NDArray[np.int64]
    num_random: int

    def __len__(self) -> int:
        """The number of steps S."""
        return len(self.pair_SB)


def plan_batches(
    pairs: TrainingPairs, *, global_batch: int, steps: int, seed: int, hard_negatives: int = 0
) -> BatchPlan:
    """Plan all batches.

    Pairs are drawn in epochs of a seeded permutation. Every batch is full (a short one has fewer negatives, and a
    larger gradient: sentence-transformers#3420), and holds no query twice: a pair whose query is in the batch already
    waits for the next one. What fills no batch at the end of an epoch is left out of that epoch.

    Hard negatives have random numbers of their own: `pair_SB` does not depend on them. More steps only append.

    Raises:
        ValueError: there are fewer different queries than a batch has pairs, or no query has as many negatives as
            `hard_negatives` asks for.
    """
    num_queries = len(np.unique(pairs.query_index))
    if global_batch > num_queries:
        found = f"{num_queries} different queries in {len(pairs)} pairs"
        raise ValueError(f"global_batch is {global_batch}, but the training data has {found}, and each can fill one")
    check_negatives(pairs, hard_negatives)
    generator = np.random.Generator(np.random.PCG64(seed))
    batches = chain.from_iterable(_epochs(pairs, global_batch, generator))
    pair_SB = np.stack(list(islice(batches, steps)))
    negative_SBK, num_random = draw_negatives(pairs, pair_SB, hard_negatives, seed)
    return BatchPlan(pair_SB=pair_SB, negative_SBK=negative_SBK, num_random=num_random)


def false_negatives(
    pairs: TrainingPairs, pair_B: NDArray[np.int64], negative_BK: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Which documents of a batch are no negatives of a query, bool [Q, D] with Q = B and D = B * (1 + K).

    The documents are the positives of the batch, then the hard negatives of query 0, of query 1, ... Masked are

    - documents relevant to the query other than by its own pair: other relevant documents of it, or the text of its
      positive again (sentence-transformers#3611). The diagonal, each query's own positive, is False;
    - hard negatives whose text stands in the batch already, for all queries: each counts once. Positives that several
      pairs have in common stay, as often as they are drawn, whatever K is.
    """
    hard = np.empty(0, dtype=np.int64) if negative_BK is None else negative_BK.ravel()
    document_D = np.concatenate([pairs.document_index[pair_B], hard])
    masked_QD = np.zeros((len(pair_B), len(document_D)), dtype=np.bool_)
    row, relevant = pairs.relevant_documents.of(pairs.query_index[pair_B])
    order_D = np.argsort(document_D, kind="stable")
    sorted_D = document_D[order_D]
    first = np.searchsorted(sorted_D, relevant, side="left")
    count = np.searchsorted(sorted_D, relevant, side="right") - first
    masked_QD[np.repeat(row, count), order_D[ranges(first, count)]] = True
    np.fill_diagonal(masked_QD, False)
    again_D = np.ones(len(document_D), dtype=np.bool_)
    again_D[np.unique(document_D, return_index=True)[1]] = False
    again_D[: len(pair_B)] = False
    masked_QD[:, again_D] = True
    return masked_QD


def _epochs(pairs: TrainingPairs, size: int, generator: np.random.Generator) -> Iterator[Iterator[NDArray[np.int64]]]:
    each_query_once = len(np.unique(pairs.query_index)) == len(pairs)
    while True:
        order_P = generator.permutation(len(pairs))
        yield _in_order(order_P, size) if each_query_once else _without_repeats(order_P, pairs.query_index, size)


def _in_order(order_P: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    return iter(order_P[: len(order_P) // size * size].reshape(-1, size))


def _without_repeats(order_P: NDArray[np.int64], query_P: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Fill batches in order; who has waited longest goes first."""
    queries = query_P.tolist()
    rest = iter(order_P.tolist())
    waiting: list[int] = []
    while True:
        batch: dict[int, int] = {}  # query -> pair
        passed_over = []
        for pair in chain(waiting, rest):
            if queries[pair] in batch:
                passed_over.append(pair)
                continue
            batch[queries[pair]] = pair
            if len(batch) == size:
                break
        if len(batch) < size:
            return
        yield np.fromiter(batch.values(), dtype=np.int64)
        # None that waited is lost: they are of fewer queries than fill a batch, so `rest` filled it.
        waiting = passed_over
