"""How far scores on pools are from scores over whole corpora: measured once, and in a sweep that has both.

All judged documents are in a pool, so that a score on it is never below the one over the corpus, but for ties.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from results.asked import asked_twice
from results.rows import read_rows
from results.store import Readable
from search_spaces.specs import PoolSettings


@dataclass(frozen=True, kw_only=True)
class Bias:
    """The same checkpoints and similarities scored on a pool and over the corpus; scores are 0 to 1.

    `kendall_tau` (b) compares the two orders of the scores; None where there is no order. `same_winner`: whether the
    highest score is of the same checkpoint and similarity.
    """

    num_scores: int
    mean_difference: float
    max_difference: float
    kendall_tau: float | None
    same_winner: bool


@dataclass(frozen=True, kw_only=True)
class MeasuredBias:
    """The bias of one collection, with the sizes that it depends on."""

    collection: str
    num_queries: int
    num_corpus_documents: int
    num_documents: int
    bias: Bias


@dataclass(frozen=True, kw_only=True)
class BiasInSweep:
    """The bias that a sweep shows itself, on a data set that it has on both tiers."""

    data_set: str
    split: str
    measure: str
    bias: Bias


# What `make bench BENCH=pool` printed on 2026-11-30, over the shared collections of these names (seed 0, on a CPU). A
# test holds the settings to be the defaults: who changes those measures again.
MEASURED_WITH = PoolSettings(bm25_top=20, per_similarity_top=20, longest=100, random=500, seed=0)
MEASURED_HOW = (
    "MiniLM (2 layers, 48 tokens) untrained under every fixed similarity and after 60 steps of 32 pairs of conala with "
    "cosine, dot, qnorm or dnorm"
)
MEASURED = (
    MeasuredBias(
        collection="scifact",
        num_queries=300,
        num_corpus_documents=5183,
        num_documents=4249,
        bias=Bias(
            num_scores=9,
            mean_difference=0.00006,
            max_difference=0.00032,
            kendall_tau=1.0000,
            same_winner=True,
        ),
    ),
    MeasuredBias(
        collection="scifact",
        num_queries=25,
        num_corpus_documents=5183,
        num_documents=1479,
        bias=Bias(
            num_scores=9,
            mean_difference=0.00018,
            max_difference=0.00163,
            kendall_tau=1.0000,
            same_winner=True,
        ),
    ),
    MeasuredBias(
        collection="conala",
        num_queries=472,
        num_corpus_documents=2810,
        num_documents=2389,
        bias=Bias(
            num_scores=9,
            mean_difference=0.00318,
            max_difference=0.00822,
            kendall_tau=1.0000,
            same_winner=True,
        ),
    ),
    MeasuredBias(
        collection="conala",
        num_queries=25,
        num_corpus_documents=2810,
        num_documents=1136,
        bias=Bias(
            num_scores=9,
            mean_difference=0.01658,
            max_difference=0.05048,
            kendall_tau=0.9412,
            same_winner=True,
        ),
    ),
)


def bias(on_pool: Sequence[float], over_corpus: Sequence[float]) -> Bias:
    """Compare scores of the same checkpoints and similarities, at least one, in the same order."""
    differences = [abs(one - other) for one, other in zip(on_pool, over_corpus, strict=True)]
    return Bias(
        num_scores=len(differences),
        mean_difference=sum(differences) / len(differences),
        max_difference=max(differences),
        kendall_tau=_kendall_tau(on_pool, over_corpus),
        same_winner=_winners(on_pool) == _winners(over_corpus),
    )


def biases_in_sweep(store: Readable, trials: Iterable[Mapping[str, Any]]) -> list[BiasInSweep]:
    """The bias of each data set that some of the trials (rows of the schema TRIALS) have rows of on both tiers."""
    scores: dict[tuple[str, str, str], dict[tuple[str, str], tuple[float, float]]] = {}
    for trial in trials:
        for data, scored_with, pair in _pairs(store, trial):
            scores.setdefault(data, {})[trial["checkpoint_hash"], scored_with] = pair
    return [
        BiasInSweep(data_set=name, split=split, measure=measure, bias=bias(*zip(*pairs.values(), strict=True)))
        for (name, split, measure), pairs in scores.items()
    ]


def _pairs(
    store: Readable, trial: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str, str], str, tuple[float, float]]]:
    """(data set, split and main measure; score similarity; score on the pool and over the corpus)."""
    for asked in asked_twice(store, trial):
        if store.exists(asked.full_key) and store.exists(asked.pool_key):
            data, measure = asked.evaluation.data, asked.evaluation.data.entry.measures[0]
            rows = (read_rows(store, key, "per_query") for key in (asked.pool_key, asked.full_key))
            on_pool, over_corpus = (_mean(table, measure) for table in rows)
            yield (data.name, data.split, measure), asked.score_similarity, (on_pool, over_corpus)


def _mean(rows: pa.Table, measure: str) -> float:
    mean: float = pc.mean(rows.filter(pc.field("measure") == measure)["value"]).as_py()
    return mean


def _kendall_tau(one: Sequence[float], other: Sequence[float]) -> float | None:
    from scipy.stats import kendalltau  # here: a third of a second that tables without pools need not wait

    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(kendalltau(one, other).statistic)


def _winners(scores: Sequence[float]) -> list[int]:
    return [index for index, score in enumerate(scores) if score == max(scores)]
