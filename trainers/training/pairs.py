"""Training pairs of a collection: which query goes with which document, and which texts count as the same.

Suffixes: P pairs, N negatives, J both (judgements), Q queries, D documents that stand in a pair or as a negative.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.collection import Collection, document_text, strings
from trainers.data_sets.rows import places_of, take_rows
from trainers.training.grouped import Grouped, grouped
from trainers.training.texts import ArrowTexts

_ROWS_AT_ONCE = 8192  # bounds what stands as Python objects


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPairs:
    """Pairs of a query and a document relevant to it, and hard negatives of each query.

    Queries with equal texts are one query here, with the relevant documents of all of them; documents with equal
    texts are one document. So "the same" means the same to the encoder, whatever the ids say.

    Attributes:
        query_index: int64 [P], index of each pair's query in `query_texts`.
        document_index: int64 [P], index of its document in `document_texts`.
        query_texts: the queries, without prompts.
        document_texts: the documents that are relevant to a query, title included, then those that are only negatives.
        negatives: of each query the documents that are its hard negatives; none is relevant to it.
        num_blank: judgements that were left out, since the query or the document has no text.
        num_contradicted: negatives that were left out, since their text is relevant to the query.
    """

    query_index: NDArray[np.int64]
    document_index: NDArray[np.int64]
    query_texts: Sequence[str]
    document_texts: Sequence[str]
    negatives: Grouped
    num_blank: int = 0
    num_contradicted: int = 0

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.query_index)

    @cached_property
    def relevant_documents(self) -> Grouped:
        """Of each query, the documents that are relevant to it."""
        return grouped(self.query_index, self.document_index, len(self.query_texts))


def load_pairs(data: DataSpec, *, hard_negatives: int = 0) -> TrainingPairs:
    """The training pairs that a spec names. Raises as `data_sets.load` and `training_pairs` do."""
    threshold = data.entry.relevance_threshold
    return training_pairs(
        data_sets.load(data.entry), data.split, relevance_threshold=threshold, hard_negatives=hard_negatives
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairCounts:
    """What can be said of training pairs without a training; the counts that `TrainingPairs` has mean the same here.

    Attributes:
        num_queries: different ones that have a relevant document.
        negatives_Q: int64 [Q], how many hard negatives each has; 0 where none were asked for.
        irrelevant_Q: int64 [Q], how many documents of the pairs, and hard negatives, are not relevant to each.
    """

    num_queries: int
    negatives_Q: NDArray[np.int64]
    irrelevant_Q: NDArray[np.int64]
    num_blank: int
    num_contradicted: int

    @property
    def most_negatives(self) -> int:
        """Those of the query that has most."""
        return int(self.negatives_Q.max(initial=0))

    @property
    def fewest_irrelevant(self) -> int:
        """Those of the query that has fewest."""
        return int(self.irrelevant_Q.min()) if self.num_queries else 0

    @property
    def num_without_candidates(self) -> int:
        """How many queries every document is relevant to, so that no loss of theirs can be but 0."""
        return int((self.irrelevant_Q == 0).sum())

    def num_short(self, hard_negatives: int) -> int:
        """How many queries have fewer."""
        return int((self.negatives_Q < hard_negatives).sum())


def pair_counts(data: DataSpec, *, hard_negatives: int = 0) -> PairCounts:
    """The counts of what `load_pairs` gives, also where it has no pair to give. Raises as `data_sets.load` does."""
    collection = data_sets.load(data.entry)
    found = _found_pairs(collection, data.split, data.entry.relevance_threshold, hard_negatives)
    return PairCounts(
        num_queries=len(found.query_texts),
        negatives_Q=found.negatives.counts,
        irrelevant_Q=len(found.document_texts) - found.relevant_documents.counts,
        num_blank=found.num_blank,
        num_contradicted=found.num_contradicted,
    )


def training_pairs(
    collection: Collection, split: str, *, relevance_threshold: int, hard_negatives: int = 0
) -> TrainingPairs:
    """All pairs of a split whose relevance is at least `relevance_threshold`, in an order that only content decides.

    Negatives, which are there only if `hard_negatives` are asked for, are documents judged lower than that, and what
    the collection says to be negatives.

    Raises:
        ValueError: the collection has no such split, or no pair in it.
    """
    if split not in collection.qrels:
        known = ", ".join(sorted(collection.qrels))
        raise ValueError(f"data set '{collection.name}' has no split '{split}' (it has {known})")
    pairs = _found_pairs(collection, split, relevance_threshold, hard_negatives)
    if not len(pairs):
        at_least = f"relevance of at least {relevance_threshold}"
        raise ValueError(f"split '{split}' of data set '{collection.name}' has no pair with a {at_least}")
    return pairs


def _found_pairs(collection: Collection, split: str, relevance_threshold: int, hard_negatives: int) -> TrainingPairs:
    """The pairs of a split, even if there are none."""
    qrels = collection.qrels[split]
    relevant = qrels.filter(pc.field("relevance") >= relevance_threshold)
    negative = _negatives(collection, split, relevance_threshold) if hard_negatives else relevant.slice(0, 0)
    judged = pa.concat_tables([table.select(["query_id", "document_id"]) for table in (relevant, negative)])
    queries = _ranked(collection.queries, judged["query_id"], _query_texts)
    documents = _ranked(collection.corpus, judged["document_id"], _document_texts)
    blank = queries.blank()[queries.rank_J] | documents.blank()[documents.rank_J]
    key = queries.rank_J * max(1, len(documents.texts)) + documents.rank_J
    is_pair = np.arange(len(key)) < len(relevant)
    return _pairs(key[is_pair & ~blank], key[~is_pair & ~blank], queries, documents, int(blank.sum()))


def _negatives(collection: Collection, split: str, relevance_threshold: int) -> pa.Table:
    judged = collection.qrels[split].filter(pc.field("relevance") < relevance_threshold).drop_columns("relevance")
    return pa.concat_tables([judged, collection.negatives[split]]) if split in collection.negatives else judged


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ranked:
    """The different texts of J judgements. Its rank is a text's place among them in the order of their bytes.

    That is the order of code points: neither the order of a file's lines nor ids decide batches.
    """

    texts: pa.LargeStringArray
    order: NDArray[np.int64]
    rank_J: NDArray[np.int64]

    def blank(self) -> NDArray[np.bool_]:
        """By rank, whether there is nothing in a text but white space."""
        trimmed = pc.utf8_trim_whitespace(self.texts)
        blank: NDArray[np.bool_] = pc.equal(trimmed, pa.scalar("", pa.large_string())).to_numpy(zero_copy_only=False)
        return blank[self.order]

    def of(self, ranks: NDArray[np.int64]) -> ArrowTexts:
        """The texts of some ranks."""
        return ArrowTexts(self.texts.take(pa.array(self.order[ranks], pa.int64())))


def _ranked(table: pa.Table, ids: pa.ChunkedArray, texts_of: Callable[[pa.Table], list[str]]) -> _Ranked:
    """The texts of the rows with these ids."""
    different = cast(pa.Array, ids.unique())
    row_J = places_of(different, table["id"])[pc.index_in(ids, value_set=different).to_numpy()]
    assert (row_J >= 0).all(), "a checked collection has the text of every judged id"
    used, place_J = np.unique(row_J, return_inverse=True)
    blocks = [
        pa.array(texts_of(take_rows(table, used[start : start + _ROWS_AT_ONCE])), pa.large_string())
        for start in range(0, len(used), _ROWS_AT_ONCE)
    ]
    encoded = pa.chunked_array(blocks, pa.large_string()).combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return _Ranked(
        texts=cast(pa.LargeStringArray, encoded.dictionary),
        order=order,
        rank_J=rank[encoded.indices.to_numpy()[place_J]],
    )


def _query_texts(rows: pa.Table) -> list[str]:
    return strings(rows["text"])


def _document_texts(rows: pa.Table) -> list[str]:
    return list(map(document_text, strings(rows["title"]), strings(rows["text"])))


def _pairs(
    pair_key: NDArray[np.int64],
    negative_key: NDArray[np.int64],
    queries: _Ranked,
    documents: _Ranked,
    num_blank: int,
) -> TrainingPairs:
    """Pairs of keys `query * number of documents + document`, each once; texts are numbered as they come up."""
    num_documents = max(1, len(documents.texts))
    pair_key, negative_key = np.unique(pair_key), np.unique(negative_key)
    query_P, document_P = np.divmod(pair_key, num_documents)
    negative_key = negative_key[np.isin(negative_key // num_documents, query_P)]
    kept_key = np.setdiff1d(negative_key, pair_key, assume_unique=True)
    query_N, document_N = np.divmod(kept_key, num_documents)
    used_Q = np.unique(query_P)
    used_D = _as_they_come(np.concatenate([document_P, np.unique(document_N)]))
    number_D = np.zeros(num_documents, dtype=np.int64)
    number_D[used_D] = np.arange(len(used_D))
    return TrainingPairs(
        query_index=np.searchsorted(used_Q, query_P),
        document_index=number_D[document_P],
        query_texts=queries.of(used_Q),
        document_texts=documents.of(used_D),
        negatives=grouped(np.searchsorted(used_Q, query_N), number_D[document_N], len(used_Q)),
        num_blank=num_blank,
        num_contradicted=len(negative_key) - len(kept_key),
    )


def _as_they_come(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different numbers, in the order in which each comes up first."""
    different, first = np.unique(numbers, return_index=True)
    return different[np.argsort(first)]
