"""What was observed of qnorm against dnorm: scores on groups, and their paired difference with its interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from results.query_scores import DataKey, QueryScores, data_set_scores_of
from results.scores import ROWS_MISSING
from results.statistics.contrasts import Term, estimate_contrast
from results.statistics.estimate import NO_VARIANCE, Estimate
from results.statistics.groups import GroupScores

SIDES = ("qnorm", "dnorm")
_TIED_BELOW = 1e-12  # of a score of 0 to 1: a difference that only the order of summation makes
_DIFFERENCE = {"qnorm": 1.0, "dnorm": -1.0}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Both sides in one cell on some groups.

    Attributes:
        scores: of each side, 0 to 1, None where rows are missing.
        trials: of each side, their seeds and ids, by seed.
        difference: qnorm minus dnorm; None where it cannot be taken.
        not_evaluated: the groups on which the sweep does not evaluate one of the sides, though it trains both.
        reason: why there are no scores or no difference.
    """

    scores: Mapping[str, float | None]
    trials: Mapping[str, tuple[tuple[int | None, str], ...]]
    difference: Estimate | None
    not_evaluated: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def not_trained(self) -> tuple[str, ...]:
        """The sides that the sweep does not train in this cell."""
        return tuple(side for side in SIDES if not self.trials[side])

    @property
    def winner(self) -> str | None:
        """The side that can be told from the other, 'tie' where none can, None where there is nothing to compare."""
        found = self.difference
        if found is None or found.value is None:
            return None
        if found.low is None or found.high is None:
            is_known = found.reason == NO_VARIANCE and abs(found.value) >= _TIED_BELOW
        else:
            is_known = found.low > 0 or found.high < 0
        if not is_known:
            return "tie"
        return "qnorm" if found.value > 0 else "dnorm"


def observe(
    sides: pl.DataFrame,
    group_means: pl.DataFrame,
    queries: Mapping[DataKey, QueryScores],
    groups: Sequence[str],
    *,
    cell: str,
) -> Observed:
    """Both sides of one cell, on the unweighted mean of `groups`.

    Args:
        sides: the rows of `Collected.expected` of this cell's trials with SIDES, in whatever group.
        group_means: the scores of these trials on groups (`results.scores.group_scores`).
        queries: `Collected.query_scores`.
        groups: whose mean is taken: of all of them, or of none.
        cell: names it in what is raised.
    """
    every = {side: _trials(sides, side) for side in SIDES}
    lacking = _not_evaluated(sides, groups)
    if lacking and all(every.values()):
        reason = f"the sweep does not evaluate both sides on {', '.join(lacking)} here"
        none = dict.fromkeys(SIDES)
        return Observed(scores=none, trials=every, difference=None, not_evaluated=lacking, reason=reason)
    sides = _on_all(sides, groups)
    trials = {side: _trials(sides, side) or every[side] for side in SIDES}
    seeds = [tuple(seed for seed, _ in trials[side]) for side in SIDES]
    means = {side: _mean(group_means, trials[side], groups) for side in SIDES}
    measures = sides["measure"].unique().sort().to_list()
    if len(measures) > 1:
        reason = f"its groups have different main measures ({', '.join(measures)}): there is no mean over them"
        return Observed(scores=dict.fromkeys(SIDES), trials=trials, difference=None, reason=reason)
    if None in means.values():
        return Observed(scores=means, trials=trials, difference=None, reason=ROWS_MISSING)
    if seeds[0] != seeds[1]:
        reason = "qnorm and dnorm have different seeds"
        return Observed(scores=means, trials=trials, difference=None, reason=reason)
    terms = [
        Term(group=_group(sides, trials, queries, group, cell), coefficients=_DIFFERENCE, weight=1 / len(groups))
        for group in groups
    ]
    return Observed(scores=means, trials=trials, difference=estimate_contrast(terms))


def _trials(sides: pl.DataFrame, side: str) -> tuple[tuple[int | None, str], ...]:
    own = sides.filter(pl.col("similarity") == side)
    return tuple(own.select("seed", "trial_id").unique().sort("seed", "trial_id").iter_rows())


def _on_all(sides: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """The rows in `groups` of the trials that the sweep evaluates on every one of them."""
    own = sides.filter(pl.col("group").is_in(groups))
    return own.filter(pl.col("group").n_unique().over("trial_id") == len(groups))


def _not_evaluated(sides: pl.DataFrame, groups: Sequence[str]) -> tuple[str, ...]:
    """The groups that keep a side from having a trial on all of them."""
    whole = set(_on_all(sides, groups)["similarity"])
    short = sides.filter(~pl.col("similarity").is_in(whole))
    trials = short["trial_id"].n_unique()
    asked = dict(short.group_by("group").agg(pl.col("trial_id").n_unique()).iter_rows())
    return tuple(group for group in groups if asked.get(group, 0) < trials)


def _mean(group_means: pl.DataFrame, trials: Sequence[tuple[Any, str]], groups: Sequence[str]) -> float | None:
    """Over groups and seeds; None where one is missing."""
    ids = [trial for _, trial in trials]
    found = group_means.filter(pl.col("trial_id").is_in(ids) & pl.col("group").is_in(groups))["score"]
    if len(found) != len(ids) * len(groups) or found.null_count() or not len(found):
        return None
    return float(found.to_numpy().mean())


def _group(
    sides: pl.DataFrame,
    trials: Mapping[str, Sequence[tuple[Any, str]]],
    queries: Mapping[DataKey, QueryScores],
    group: str,
    cell: str,
) -> GroupScores:
    """The group's scores as arrays of side, seed and query; whole, since the sides have a score."""
    rows = sides.filter(pl.col("group") == group).select(*DataKey._fields, "part_of").unique(maintain_order=True)
    found = [(side, [trial for _, trial in trials[side]]) for side in SIDES]
    parts = []
    for row in rows.iter_rows(named=True):
        of_data = queries[DataKey(*(row[name] for name in DataKey._fields))]
        name = f"{row['data_set']}/{row['split']}"
        parts.append(data_set_scores_of(of_data, found, name=name, part_of=row["part_of"] or name))
    return GroupScores(name=group, trainings=cell, columns=SIDES, data_sets=tuple(parts))
