"""A collection as an evaluation asks it: what is searched, the queries, and by what order of rows it counts.

Imports no torch. Shapes: N documents.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from results.store import Store
from search_spaces.specs import EvaluationSpec
from trainers.data_sets import Collection
from trainers.evaluation.counted_order import order_digest
from trainers.evaluation.judged_queries import JudgedQueries, load_evaluated, split_queries
from trainers.evaluation.pools import load_searched, searched_hashes
from trainers.evaluation.text_hashes import Hashes, stored_corpus_hashes


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedCollection:
    """A collection with the queries that an evaluation asks, and the content hash of each of its N documents."""

    evaluation: EvaluationSpec
    collection: Collection
    queries: JudgedQueries
    hash_N2: Hashes

    @classmethod
    def of(cls, evaluation: EvaluationSpec, collection: Collection, hash_N2: Hashes) -> "AskedCollection":
        """A collection, or a part of one, asked the queries of the evaluation's split."""
        queries = split_queries(collection, evaluation.data.split, evaluation.data.entry.exclusion)
        return cls(evaluation=evaluation, collection=collection, queries=queries, hash_N2=hash_N2)

    @classmethod
    def searched(cls, evaluation: EvaluationSpec, store: Store) -> "AskedCollection":
        """What the evaluation searches: of tier 'pool' the documents of its pool. Raises as `load_searched`."""
        collection = load_searched(evaluation, store)
        return cls.of(evaluation, collection, searched_hashes(evaluation, collection.corpus))

    @classmethod
    def whole(cls, evaluation: EvaluationSpec) -> "AskedCollection":
        """The whole collection, whatever the tier. Raises as `load_evaluated`."""
        collection = load_evaluated(evaluation)
        return cls.of(evaluation, collection, stored_corpus_hashes(evaluation.data.entry, collection.corpus))

    @property
    def document_ids(self) -> pa.ChunkedArray:
        """The ids of the documents, in the order of the corpus."""
        return self.collection.corpus["id"]

    @cached_property
    def order_digest(self) -> str:
        """By which order of rows rankings and shards of it count."""
        return order_digest(self.queries.ids, self.document_ids, self.hash_N2)
