"""The tables: a registry of named builders, each from collected rows to a `Table`. A module here adds one."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from results.collect import Collected
from results.layout import SweepRecord
from results.magnitude_correlation import SIMILARITY
from results.tables import (
    claims,
    cohen_d,
    cost,
    fisher_calls,
    fisher_check,
    fisher_summary,
    gains,
    gains_by_dataset,
    learned_gamma,
    magnitude_correlation,
    missing,
    predictions,
    rag,
    rag_gains,
    ranks,
    seeds,
    significance,
    sts,
    train_score_matrix,
    winners,
)
from results.tables.references import with_references
from results.tables.table import Table, TableOptions
from results.tables.tiers import of_one_tier
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.similarities import SIMILARITIES


@dataclass(frozen=True, kw_only=True)
class TableBuilder:
    """A table's name, what it shows, the function that builds it, and which sweeps it says something of."""

    name: str
    summary: str
    build: Callable[[Collected, TableOptions], Table]
    applies: Callable[[SweepRecord], bool] = lambda _: True


def _ranked(collected: Collected) -> pl.DataFrame:
    return collected.expected


def _answered(collected: Collected) -> pl.DataFrame:
    return collected.expected_answers


def _has_retrieval(record: SweepRecord) -> bool:
    return any(evaluation.main_measure != SPEARMAN and evaluation.groups for evaluation in record.evaluations)


def _has_several_data_sets(record: SweepRecord) -> bool:
    ranked = [evaluation for evaluation in record.evaluations if evaluation.main_measure != SPEARMAN]
    groups = {group for evaluation in ranked for group in evaluation.groups}
    return any(len({e.whole for e in ranked if group in e.groups}) > 1 for group in groups)


def _has_questions(record: SweepRecord) -> bool:
    return any(evaluation.reader is not None for evaluation in record.evaluations)


def _has_pairs(record: SweepRecord) -> bool:
    return any(evaluation.main_measure == SPEARMAN for evaluation in record.evaluations)


def _has_probes(record: SweepRecord) -> bool:
    return _has_retrieval(record) and bool(record.probes)


def _trains_gammas(record: SweepRecord) -> bool:
    return _trains(record, {similarity.name for similarity in SIMILARITIES.values() if similarity.trained})


def _trains_qnorm(record: SweepRecord) -> bool:
    return _has_retrieval(record) and _trains(record, {SIMILARITY})


def _trains(record: SweepRecord, similarities: set[str]) -> bool:
    return any(similarities & set(trial.title.split("/")) for trial in record.trials)


TABLES = Registry(
    "table",
    [
        TableBuilder(
            name="gains",
            summary="scores and gains against a baseline",
            build=with_references(of_one_tier(gains.build, _ranked), "group"),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="gains_by_dataset",
            summary="the same on each data set",
            build=with_references(of_one_tier(gains_by_dataset.build, _ranked), "data set"),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="winners",
            summary="the best similarity, and whether it can be told from the second",
            build=of_one_tier(winners.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="significance",
            summary="gains on groups, and what tells them from chance",
            build=of_one_tier(significance.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="significance_by_dataset",
            summary="the same on each data set",
            build=of_one_tier(significance.build_by_data_set, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="ranks",
            summary="similarities ranked over the data sets of a group",
            build=of_one_tier(ranks.build, _ranked),
            applies=_has_several_data_sets,
        ),
        TableBuilder(
            name="seeds",
            summary="spread between seeds, and how many a claim needs",
            build=of_one_tier(seeds.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="claims",
            summary="the study's claims, confirmed, refuted or undecided",
            build=of_one_tier(claims.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="sts",
            summary="correlations of scored pairs, both ways round",
            build=with_references(sts.build, "pairs"),
            applies=_has_pairs,
        ),
        TableBuilder(
            name="rag",
            summary="a reader's answers from what was found",
            build=with_references(of_one_tier(rag.build, _answered), "answers"),
            applies=_has_questions,
        ),
        TableBuilder(
            name="rag_gains",
            summary="gains of its answers, with paired tests",
            build=of_one_tier(rag_gains.build, _answered),
            applies=_has_questions,
        ),
        TableBuilder(
            name="train_score_matrix",
            summary="trained with one similarity, scored with another",
            build=of_one_tier(train_score_matrix.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="learned_gamma",
            summary="trained gammas over the steps of a training",
            build=learned_gamma.build,
            applies=_trains_gammas,
        ),
        TableBuilder(
            name="cohen_d",
            summary="norms of relevant and irrelevant documents",
            build=of_one_tier(cohen_d.build, _ranked),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="magnitude_correlation",
            summary="norms of relevant documents against gains",
            build=of_one_tier(magnitude_correlation.build, _ranked),
            applies=_trains_qnorm,
        ),
        TableBuilder(
            name="predictions",
            summary="what each predictor calls before training",
            build=predictions.build,
            applies=lambda record: bool(record.probes),
        ),
        TableBuilder(
            name="fisher_check",
            summary="what Fisher information called, who won",
            build=of_one_tier(fisher_check.build, _ranked),
            applies=_has_probes,
        ),
        TableBuilder(
            name="fisher_calls",
            summary="its calls by scale, and over the seeds of random weights",
            build=of_one_tier(fisher_calls.build, _ranked),
            applies=_has_probes,
        ),
        TableBuilder(
            name="fisher_summary",
            summary="its calls against a coin and fixed calls, regret",
            build=of_one_tier(fisher_summary.build, _ranked),
            applies=_has_probes,
        ),
        TableBuilder(
            name="fisher_tau",
            summary="whether predicted differences order observed ones",
            build=of_one_tier(fisher_summary.build_tau, _ranked),
            applies=_has_probes,
        ),
        TableBuilder(
            name="fisher_published",
            summary="the study's own Fisher check, for reference",
            build=fisher_check.build_published,
            applies=_has_probes,
        ),
        TableBuilder(name="cost", summary="time, devices, tokens and memory", build=cost.build),
        TableBuilder(name="missing", summary="what is missing, failed, duplicate or mixed", build=missing.build),
    ],
)

WITH_REFERENCES = ("gains", "gains_by_dataset", "sts", "rag")  # the tables that external numbers stand in


def applicable(record: SweepRecord) -> tuple[str, ...]:
    """The tables that say something of a sweep, in their order."""
    return tuple(name for name, table in TABLES.items() if table.applies(record))
