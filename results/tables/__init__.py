"""The tables: a registry of named builders, each from collected rows to a `Table`. A module here adds one."""

from collections.abc import Callable
from dataclasses import dataclass

from results.collect import Collected
from results.layout import SweepRecord
from results.tables import fisher_check, gains, missing, rag, sts
from results.tables.table import Table, TableOptions
from results.tables.tiers import of_one_tier, primary
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.catalogue.registry import Registry


@dataclass(frozen=True, kw_only=True)
class TableBuilder:
    """A table's name, what it shows, the function that builds it, and which sweeps it says something of."""

    name: str
    summary: str
    build: Callable[[Collected, TableOptions], Table]
    applies: Callable[[SweepRecord], bool] = lambda _: True


def _has_retrieval(record: SweepRecord) -> bool:
    return any(evaluation.main_measure != SPEARMAN and evaluation.groups for evaluation in record.evaluations)


def _has_questions(record: SweepRecord) -> bool:
    return any(evaluation.reader is not None for evaluation in record.evaluations)


def _has_pairs(record: SweepRecord) -> bool:
    return any(evaluation.main_measure == SPEARMAN for evaluation in record.evaluations)


def _has_probes(record: SweepRecord) -> bool:
    return _has_retrieval(record) and bool(record.probes)


TABLES = Registry(
    "table",
    [
        TableBuilder(
            name="gains",
            summary="scores and gains against a baseline",
            build=of_one_tier(gains.build, lambda collected: collected.expected),
            applies=_has_retrieval,
        ),
        TableBuilder(
            name="sts", summary="correlations of scored pairs, both ways round", build=sts.build, applies=_has_pairs
        ),
        TableBuilder(
            name="rag",
            summary="a reader's answers from what was found",
            build=of_one_tier(rag.build, lambda collected: collected.expected_answers),
            applies=_has_questions,
        ),
        TableBuilder(
            name="fisher_check",
            summary="what Fisher information called, who won",
            build=of_one_tier(fisher_check.build, primary),
            applies=_has_probes,
        ),
        TableBuilder(name="missing", summary="what the sweep asked for and does not have", build=missing.build),
    ],
)


def applicable(record: SweepRecord) -> tuple[str, ...]:
    """The tables that say something of a sweep, in their order."""
    return tuple(name for name, table in TABLES.items() if table.applies(record))
