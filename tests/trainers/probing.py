"""Probes of a small collection, their rows, and what they read, embedded text by text."""

from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from tiny_trials import data_spec, with_hash, write_collection

from results.layout import probe_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, ScaleSpec
from trainers.data_sets import load
from trainers.encoders.encode import encode
from trainers.fisher.candidate_pools import plan_pools
from trainers.fisher.probe import run_probe
from trainers.init_regimes import start_encoder
from trainers.training.batches import false_negatives
from trainers.training.pairs import training_pairs


@contextmanager
def probe_data(folder):
    """A training split to probe on, with a cache folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        yield data_spec(write_collection(folder / "collection"), "train")


def make_probe(data, encoder, *, seed=None, num_queries=40, candidates=3, scale=2.0, mode="fixed", **changes):
    return ProbeSpec(
        task="contrastive",
        encoder=with_hash(encoder),
        seed=seed,
        training_data=data,
        scale=ScaleSpec(mode=mode, value=scale),
        num_queries=num_queries,
        candidates_per_query=candidates,
        **changes,
    )


def run(spec, folder):
    """The status, and the rows as a frame (None where there are none)."""
    store = open_store(str(folder))
    status = run_probe(spec, store, verify=lambda: None)
    key = probe_rows(probe_id(spec))
    return status, pl.from_arrow(read_rows(store, key, "probes")) if store.exists(key) else None


def value(rows, block, statistic, similarity=None, rank=None, at=None):
    found = rows.filter(
        pl.col("at").eq_missing(at)
        & (pl.col("block") == block)
        & (pl.col("statistic") == statistic)
        & pl.col("similarity").eq_missing(similarity)
        & pl.col("rank").eq_missing(rank)
    )
    return found["value"].item()


def embedded_pools(spec):
    """Each pool's query and document vectors, its documents' numbers and its mask; then vectors of what is held out."""
    encoder = start_encoder(spec.encoder, spec.seed)
    pairs = training_pairs(load(spec.training_data.entry), "train", relevance_threshold=1)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=spec.candidates_per_query)

    def vectors(indices):
        queries = [encode(encoder, [pairs.query_texts[pairs.query_index[i]]], "query")[0] for i in indices]
        documents = [encode(encoder, [pairs.document_texts[pairs.document_index[i]]], "document")[0] for i in indices]
        return np.float64(queries), np.float64(documents)

    pools = [(*vectors(pool), pairs.document_index[pool], false_negatives(pairs, pool)) for pool in plan.pool_PC]
    queries, documents = vectors(plan.held_out_S)
    return pools, np.concatenate([queries, np.unique(documents, axis=0)])
