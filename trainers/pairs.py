"""Training pairs of a collection: which query goes with which document, and which texts count as the same.

Suffixes: P pairs, Q queries, D documents that stand in a pair.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.collection import Collection, document_text, judged_queries, strings


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPairs:
    """Pairs of a query and a document relevant to it.

    Queries with equal texts are one query here, with the relevant documents of all of them; documents with equal
    texts are one document. So "the same" means the same to the encoder, whatever the ids say.

    Attributes:
        query_index: int64 [P], index of each pair's query in `query_texts`.
        document_index: int64 [P], index of its document in `document_texts`.
        query_texts: the queries, without prompts.
        document_texts: the documents that are relevant to a query, title included.
    """

    query_index: NDArray[np.int64]
    document_index: NDArray[np.int64]
    query_texts: tuple[str, ...]
    document_texts: tuple[str, ...]

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.query_index)

    @cached_property
    def relevant_documents(self) -> tuple[frozenset[int], ...]:
        """Of each query, the documents that are relevant to it."""
        relevant: list[set[int]] = [set() for _ in self.query_texts]
        for query, document in zip(self.query_index.tolist(), self.document_index.tolist(), strict=True):
            relevant[query].add(document)
        return tuple(frozenset(documents) for documents in relevant)


def load_pairs(data: DataSpec) -> TrainingPairs:
    """The training pairs that a spec names. Raises as `data_sets.load` and `training_pairs` do."""
    return training_pairs(data_sets.load(data.entry), data.split, relevance_threshold=data.entry.relevance_threshold)


def num_different_queries(data: DataSpec) -> int:
    """How many queries `load_pairs` gives: those with a relevant document, equal texts counted once."""
    collection = data_sets.load(data.entry)
    relevant = judged_queries(collection.qrels[data.split], data.entry.relevance_threshold)
    return len(_rows(collection.queries, pa.chunked_array([relevant]))["text"].unique())


def training_pairs(collection: Collection, split: str, *, relevance_threshold: int) -> TrainingPairs:
    """All pairs of a split whose relevance is at least `relevance_threshold`, in an order that only content decides.

    Raises:
        ValueError: the collection has no such split, or no pair in it.
    """
    if split not in collection.qrels:
        known = ", ".join(sorted(collection.qrels))
        raise ValueError(f"data set '{collection.name}' has no split '{split}' (it has {known})")
    qrels = collection.qrels[split]
    qrels = qrels.filter(pc.field("relevance") >= relevance_threshold)
    if not len(qrels):
        at_least = f"relevance of at least {relevance_threshold}"
        raise ValueError(f"split '{split}' of data set '{collection.name}' has no pair with a {at_least}")
    documents = _rows(collection.corpus, qrels["document_id"])
    queries = strings(_rows(collection.queries, qrels["query_id"])["text"])
    document_texts = map(document_text, strings(documents["title"]), strings(documents["text"]))
    # Sorted by text, so that neither the order of a file's lines nor its ids decide which batches are made.
    return pairs_of_texts(sorted(set(zip(queries, document_texts, strict=True))))


def pairs_of_texts(pairs: Iterable[tuple[str, str]]) -> TrainingPairs:
    """Pairs in the given order, with each different text once."""
    queries: dict[str, int] = {}
    documents: dict[str, int] = {}
    indices = [(queries.setdefault(q, len(queries)), documents.setdefault(d, len(documents))) for q, d in pairs]
    index_P2 = np.asarray(indices, dtype=np.int64).reshape(-1, 2)
    return TrainingPairs(
        query_index=index_P2[:, 0].copy(),
        document_index=index_P2[:, 1].copy(),
        query_texts=tuple(queries),
        document_texts=tuple(documents),
    )


def _rows(texts: pa.Table, ids: pa.ChunkedArray) -> pa.Table:
    """The rows of `texts` with these ids, one for each."""
    rows = pc.index_in(ids, value_set=texts["id"].combine_chunks())
    assert not rows.null_count, "a checked collection has the text of every judged id"
    return texts.take(rows)
