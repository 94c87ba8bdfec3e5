"""What an evaluation searches: a whole corpus, or the documents of its pool. Imports no torch."""

from collections.abc import Iterable
from typing import cast

import numpy as np
import pyarrow as pa

from results.layout import pool_rows
from results.rows import read_rows
from results.store import Store
from search_spaces.identity import pool_id
from search_spaces.specs import EvaluationSpec, StartingEncoder
from trainers.arrays import Indices
from trainers.data_sets import Collection
from trainers.data_sets.rows import places_of, take_rows
from trainers.evaluation.judged_queries import load_evaluated
from trainers.evaluation.text_hashes import Hashes, corpus_hashes, stored_corpus_hashes


class MissingPoolError(ValueError):
    """An evaluation's pool was not built yet."""


def load_searched(evaluation: EvaluationSpec, store: Store) -> Collection:
    """The collection that an evaluation searches; of tier 'pool' with the documents of its pool alone.

    Queries, judgements and exclusions are those of the whole collection.

    Raises:
        InputError: as `data_sets.load`, or there is no such split.
        ValueError: its content is not what was planned.
        MissingPoolError: its pool was not built.
    """
    collection = load_evaluated(evaluation)
    if evaluation.pool is None:
        return collection
    key = pool_rows(pool_id(evaluation))
    if not store.exists(key):
        name = evaluation.data.name
        raise MissingPoolError(f"the pool of '{name}' is not built ({store.uri}/{key}); `densesweep run` builds it")
    positions_N = positions_of_ids(read_rows(store, key, "pools")["document_id"], collection.corpus)
    return Collection(
        name=collection.name,
        corpus=take_rows(collection.corpus, positions_N),
        queries=collection.queries,
        qrels=collection.qrels,
        negatives=collection.negatives,
    )


def searched_hashes(evaluation: EvaluationSpec, corpus: pa.Table) -> Hashes:
    """The content hashes of what `load_searched` found."""
    return stored_corpus_hashes(evaluation.data.entry, corpus) if evaluation.tier == "full" else corpus_hashes(corpus)


def unbuilt_pools(evaluations: Iterable[EvaluationSpec], store: Store) -> list[EvaluationSpec]:
    """The evaluations whose pool is still to be built, one of each pool."""
    pooled = {pool_id(evaluation): evaluation for evaluation in evaluations if evaluation.pool is not None}
    return [evaluation for key, evaluation in pooled.items() if not store.exists(pool_rows(key))]


def contributors(evaluations: Iterable[EvaluationSpec]) -> list[StartingEncoder]:
    """Who contributes to the pools of some evaluations, each once."""
    pools = [evaluation.pool for evaluation in evaluations if evaluation.pool is not None]
    return list(dict.fromkeys(encoder for pool in pools for encoder in pool.encoders))


def positions_of_ids(ids: pa.Array | pa.ChunkedArray, corpus: pa.Table) -> Indices:
    """Where documents stand in the corpus, ascending; those that are not in it (judged ones may be) have none."""
    places = places_of(cast(pa.Array, ids.unique()), corpus["id"])
    positions: Indices = np.sort(places[places >= 0])
    return positions
