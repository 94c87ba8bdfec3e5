"""Scored pairs of texts for the symmetric task, and which of them stand in which batch. Imports no torch.

A pair's first text takes the query's part in a similarity and its second the document's, so that exponents which
differ act, and show. Both are encoded alike, on the side SIDE: the task is symmetric, and families with prompts put
their query prompt before both texts there (as E5's authors advise).

Suffixes: P pairs, S steps, B pairs of a batch.
"""

from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from search_spaces.problems import unknown_name
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.collection import Collection, strings
from trainers.data_sets.hashing import text_hash

SIDE: Literal["query"] = "query"


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredPairs:
    """Pairs of texts with the raters' score, in an order that only content decides.

    Attributes:
        ids: the pairs' ids.
        first_texts: without prompts.
        second_texts: without prompts.
        gold: float32 [P], 0 (nothing in common) to 1 (the same meaning).
    """

    ids: tuple[str, ...]
    first_texts: tuple[str, ...]
    second_texts: tuple[str, ...]
    gold: NDArray[np.float32]

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.ids)


def load_scored_pairs(data: DataSpec) -> ScoredPairs:
    """The scored pairs that a spec names. Raises as `data_sets.load` and `scored_pairs` do."""
    return scored_pairs(data_sets.load(data.entry), data.split)


def scored_pairs(collection: Collection, split: str) -> ScoredPairs:
    """All pairs of a split.

    Raises:
        ValueError: the collection has no such split, no pair in it, or its pairs have no scores.
    """
    if split not in collection.qrels:
        problem = unknown_name("split", split, list(collection.qrels))
        raise ValueError(f"data set '{collection.name}': {problem}")
    qrels = collection.qrels[split]
    if "gold" not in qrels.column_names:
        raise ValueError(f"data set '{collection.name}' has queries and relevant documents, no scored pairs of texts")
    if not len(qrels):
        raise ValueError(f"split '{split}' of data set '{collection.name}' has no pair")
    first = dict(zip(strings(collection.queries["id"]), strings(collection.queries["text"]), strict=True))
    second = dict(zip(strings(collection.corpus["id"]), strings(collection.corpus["text"]), strict=True))
    golds: list[Any] = qrels["gold"].to_pylist()
    # Sorted by text, so that neither the order of a file's lines nor its ids decide which batches are made.
    rows = sorted(
        (first[query], second[document], gold, query)
        for query, document, gold in zip(strings(qrels["query_id"]), strings(qrels["document_id"]), golds, strict=True)
    )
    return ScoredPairs(
        ids=tuple(row[3] for row in rows),
        first_texts=tuple(row[0] for row in rows),
        second_texts=tuple(row[1] for row in rows),
        gold=np.asarray([row[2] for row in rows], dtype=np.float32),
    )


def some_of(pairs: ScoredPairs, number: int | None) -> ScoredPairs:
    """The `number` pairs with the smallest content hashes, the same on every machine; all where there are no more."""
    if number is None or number >= len(pairs):
        return pairs
    texts = zip(pairs.first_texts, pairs.second_texts, strict=True)
    hashes = [text_hash(f"{first}\0{second}") for first, second in texts]
    chosen = sorted(sorted(range(len(pairs)), key=hashes.__getitem__)[:number])
    return ScoredPairs(
        ids=tuple(pairs.ids[index] for index in chosen),
        first_texts=tuple(pairs.first_texts[index] for index in chosen),
        second_texts=tuple(pairs.second_texts[index] for index in chosen),
        gold=pairs.gold[chosen],
    )


def plan_scored_batches(pairs: ScoredPairs, *, global_batch: int, steps: int, seed: int) -> NDArray[np.int64]:
    """The pair indices of every batch, int64 [S, B], in epochs of a seeded permutation.

    Every batch is full; what fills none at the end of an epoch is left out of that epoch.

    Raises:
        ValueError: there are fewer pairs than a batch holds.
    """
    if global_batch > len(pairs):
        raise ValueError(f"global_batch is {global_batch}, but the training data has {len(pairs)} scored pairs")
    generator = np.random.Generator(np.random.PCG64(seed))
    num_batches = len(pairs) // global_batch
    epochs = (
        generator.permutation(len(pairs))[: num_batches * global_batch].reshape(num_batches, global_batch)
        for _ in range(-(-steps // num_batches))
    )
    return np.stack(list(islice(chain.from_iterable(epochs), steps)))
