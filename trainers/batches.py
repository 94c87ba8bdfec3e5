"""Which pairs stand in which batch: known before training starts, the same on every rank (sentence-transformers#3348).

Suffixes: S steps, B pairs of a batch, P pairs, Q queries and D documents of a batch.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from trainers.pairs import TrainingPairs


def plan_batches(pairs: TrainingPairs, *, global_batch: int, steps: int, seed: int) -> NDArray[np.int64]:
    """The pair indices of every batch, int64 [S, B].

    Pairs are drawn in epochs of a seeded permutation. Every batch is full (a short one has fewer negatives, and a
    larger gradient: sentence-transformers#3420), and holds no query twice: a pair whose query is in the batch already
    waits for the next one. What fills no batch at the end of an epoch is left out of that epoch.

    Raises:
        ValueError: there are fewer different queries than a batch has pairs.
    """
    num_queries = len(np.unique(pairs.query_index))
    if global_batch > num_queries:
        found = f"{num_queries} different queries in {len(pairs)} pairs"
        raise ValueError(f"global_batch is {global_batch}, but the training data has {found}, and each can fill one")
    generator = np.random.Generator(np.random.PCG64(seed))
    batches = chain.from_iterable(_epochs(pairs, global_batch, generator))
    return np.stack(list(islice(batches, steps)))


def false_negatives(pairs: TrainingPairs, batch_B: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which documents of a batch are relevant to a query other than by its own pair, bool [Q, D] (Q = D = B).

    They are other relevant documents of the query, or the text of its positive again (sentence-transformers#3611).
    The diagonal, each query's own positive, is False.
    """
    columns: dict[int, list[int]] = defaultdict(list)
    for column, document in enumerate(pairs.document_index[batch_B].tolist()):
        columns[document].append(column)
    masked_QD = np.zeros((len(batch_B), len(batch_B)), dtype=np.bool_)
    for row, query in enumerate(pairs.query_index[batch_B].tolist()):
        for document in pairs.relevant_documents[query] & columns.keys():
            masked_QD[row, columns[document]] = True
    np.fill_diagonal(masked_QD, False)
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
