"""The metrics of a run: their names, and its headline numbers from its rows."""

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from results.layout import PlannedEvaluation
from results.rows import table_of
from results.schemas import HISTORY, check_table
from results.spearman import spearman

MAX_METRICS = 49  # a run's page stays readable under 50 metrics (mlflow#11927); the rest is in the rows
# Outer quantiles stand in the rows alone, and memory among the facts.
_NOT_STEPWISE = ("trial_id", "step", "peak_memory_bytes")
STEP_COLUMNS = tuple(n for n in HISTORY.names if n not in _NOT_STEPWISE and not n.endswith(("_q05", "_q95")))
_CHARTS = {  # MLflow groups charts by what is before '/'
    "softmax": ("logit_std", "perplexity", "saturated_share", "score_margin", "negatives_per_query"),
    "speed": ("pairs_per_s", "tokens_per_s", "padding_share"),
    "validation": ("validation_score",),
    "fisher": ("log10_kappa",),
}
_CHART_OF = {name: chart for chart, names in _CHARTS.items() for name in names}
_TRIAL_FACTS = (
    *(
        "final_loss",
        "end_saturated_share",
        "validation_score",
        "best_step",
        "steps_done",
        "scale_divisor",
        "gamma_q",
        "gamma_d",
    ),
    *("train_wall_s", "pairs_per_s", "peak_memory_bytes"),
)


def step_metric(column: str) -> str:
    """The metric of a column of HISTORY."""
    return f"{_CHART_OF.get(column, 'norms' if '_norm_' in column else 'train')}/{column}"


def metric_name(measure: str, what: str) -> str:
    """'nDCG@10' of 'attack' as 'nDCG_10/attack': MLflow knows no '@', and groups its charts by what is before '/'."""
    return re.sub(r"[^\w/.\- ]", "_", f"{measure}/{what}")


def of_tier(what: str, tier: str | None) -> str:
    """What is scored, with its tier where that is a pool: charts must not mix those with scores over whole corpora."""
    return f"{what}.pool" if tier == "pool" else what


def mean_score(data: bytes, measure: str) -> float | None:
    """The mean of a measure over the queries."""
    table = rows_in("per_query", data)
    values = table.filter(pc.equal(table.column("measure"), pa.scalar(measure))).column("value")
    return float(pc.mean(values).as_py()) if len(values) else None


def correlation(data: bytes, measure: str) -> float | None:
    """The rank correlation of scored pairs, first text as the query; null where it is not defined."""
    table = spearman(pl.DataFrame(rows_in("sts", data)))
    found: list[float | None] = table.filter(pl.col("order") == "forward")["spearman"].to_list()
    return found[0] if found else None


def rows_in(name: str, data: bytes) -> Any:
    """The rows of the schema `name` in the bytes of a file."""
    return check_table(name, table_of(data))


def headline_metrics(
    trial: Mapping[str, Any],
    scores: Mapping[PlannedEvaluation, float],
    planned: Sequence[PlannedEvaluation],
    answers: Mapping[str, float],
) -> dict[str, float]:
    """Facts, groups' means, answers, data sets, as many as `MAX_METRICS` leaves room for beside those of the steps."""
    facts = {f"final/{name.removeprefix('final_')}": trial[name] for name in _TRIAL_FACTS if trial[name] is not None}
    single = {
        metric_name(evaluation.main_measure, _evaluation_name(evaluation, planned)): score
        for evaluation, score in sorted(_of_wholes(_whole(scores, planned)).items(), key=lambda item: item[0].whole)
    }
    numbers = {**facts, **_group_means(scores, planned), **answers, **single}
    room = MAX_METRICS - len(STEP_COLUMNS)
    return dict([(name, value) for name, value in numbers.items() if math.isfinite(value)][:room])


def _group_means(scores: Mapping[PlannedEvaluation, float], planned: Sequence[PlannedEvaluation]) -> dict[str, float]:
    """Unweighted means of the groups that have all their scores, in one measure and tier: no other has a meaning."""
    means = {}
    for group in sorted({group for evaluation in planned for group in evaluation.groups}):
        members = [evaluation for evaluation in planned if group in evaluation.groups]
        kinds = {(member.main_measure, member.tier) for member in members}
        if all(member in scores for member in members) and len(kinds) == 1:
            name = metric_name(members[0].main_measure, of_tier(f"group.{group}", members[0].tier))
            means[name] = fmean(_of_wholes({member: scores[member] for member in members}).values())
    return means


def _whole(
    scores: Mapping[PlannedEvaluation, float], planned: Sequence[PlannedEvaluation]
) -> dict[PlannedEvaluation, float]:
    """The scores but those of the parts of a data set that lacks one: it has no score."""
    lacking = {(p.whole, p.split, p.tier) for p in planned if p.groups and p not in scores}
    return {p: score for p, score in scores.items() if (p.whole, p.split, p.tier) not in lacking}


def _of_wholes(scores: Mapping[PlannedEvaluation, float]) -> dict[PlannedEvaluation, float]:
    """The scores, those of the parts of a data set as one: their mean, which stands at the first of them."""
    parts: dict[tuple[str, str, str], dict[PlannedEvaluation, float]] = {}
    for evaluation, score in scores.items():
        parts.setdefault((evaluation.whole, evaluation.split, evaluation.tier), {})[evaluation] = score
    return {next(iter(of_whole)): fmean(of_whole.values()) for of_whole in parts.values()}


def _evaluation_name(evaluation: PlannedEvaluation, among: Sequence[PlannedEvaluation]) -> str:
    """The data set's name, with split and tier only where the sweep evaluates it more than once, or on a pool."""
    times = len({(other.split, other.tier) for other in among if other.whole == evaluation.whole})
    is_plain = times == 1 and evaluation.tier == "full"
    return evaluation.whole if is_plain else f"{evaluation.whole}.{evaluation.split}.{evaluation.tier}"


def probe_metric(row: Mapping[str, Any]) -> str:
    """The metric of a row of a probe."""
    about = [row["block"], row["similarity"], f"rank{row['rank']}" if row["rank"] is not None else None]
    return metric_name(row["statistic"], ".".join(part for part in about if part))
