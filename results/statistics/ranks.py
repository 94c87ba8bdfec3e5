"""Similarities ranked over data sets: Friedman's test, Nemenyi or Holm after it, and the data sets really won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from results.statistics.corrections import adjust
from results.statistics.estimate import LEVEL, Floats
from results.statistics.winners import Winner, can_be_told

PostHoc = Literal["nemenyi", "holm"]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """What Friedman's test found over data sets.

    Attributes:
        mean_ranks: by column; 1 is best, equal scores share the mean of their ranks.
        num_data_sets: that were ranked.
        statistic: Friedman's chi square, corrected for ties; None with `reason`.
        p: of the null hypothesis that all columns rank alike.
        pair_p: for each pair of columns, adjusted over the pairs of these data sets.
        unadjusted_pair_p: the same before (Holm), to be adjusted with other rankings' pairs; None with Nemenyi.
        critical_difference: of mean ranks at the level (Nemenyi); None with Holm.
        reason: why there is no test.
    """

    mean_ranks: Mapping[str, float]
    num_data_sets: int
    statistic: float | None = None
    p: float | None = None
    pair_p: Mapping[tuple[str, str], float] | None = None
    unadjusted_pair_p: Mapping[tuple[str, str], float] | None = None
    critical_difference: float | None = None
    reason: str | None = None


def rank_over_data_sets(
    scores_JC: Floats, columns: Sequence[str], *, post_hoc: PostHoc = "holm", level: float = LEVEL
) -> Ranking:
    """Friedman's test and all pairs after it (Demsar, Journal of Machine Learning Research 7, 2006).

    Pairs compare mean ranks by z = difference / sqrt(C (C + 1) / (6 J)): Nemenyi's against the studentized range,
    Holm's against the normal distribution, then adjusted. Data sets are the sample, so it speaks of new data sets.

    Args:
        scores_JC: the higher the better, one row for each data set, averaged over seeds and queries.
        columns: names of the columns.
        post_hoc: which adjusts the pairs.
        level: 1 minus the error, of the critical difference.
    """
    from scipy.stats import friedmanchisquare, rankdata  # a second to import, seldom asked for

    num_data_sets, num_columns = scores_JC.shape
    mean_ranks_C = rankdata(-scores_JC, axis=1).mean(axis=0)
    mean_ranks = dict(zip(columns, mean_ranks_C.tolist(), strict=True))
    known = Ranking(mean_ranks=mean_ranks, num_data_sets=num_data_sets)
    reason = _untestable(scores_JC)
    if reason:
        return replace(known, reason=reason)
    statistic, p = friedmanchisquare(*scores_JC.T)
    error = np.sqrt(num_columns * (num_columns + 1) / (6 * num_data_sets))
    pairs = [(a, b) for i, a in enumerate(columns) for b in columns[i + 1 :]]
    z_values = np.array([abs(mean_ranks[a] - mean_ranks[b]) / error for a, b in pairs])
    is_nemenyi = post_hoc == "nemenyi"
    unadjusted = None if is_nemenyi else _normal_p(z_values)
    pair_p = _nemenyi_p(z_values, num_columns) if unadjusted is None else adjust(unadjusted)
    return replace(
        known,
        statistic=float(statistic),
        p=float(p),
        pair_p={pair: p for pair, p in zip(pairs, pair_p, strict=True) if p is not None},
        unadjusted_pair_p=None if unadjusted is None else dict(zip(pairs, unadjusted, strict=True)),
        critical_difference=_critical_difference(num_columns, float(error), level) if is_nemenyi else None,
    )


def data_sets_won(winners: Sequence[Winner], adjusted_p: Sequence[float | None]) -> dict[str, int]:
    """How many data sets each column really won: it scores best there, and can be told from the second.

    Args:
        winners: one for each data set.
        adjusted_p: of their leads, adjusted over all of them.
    """
    won = [w.best for w, p in zip(winners, adjusted_p, strict=True) if can_be_told(w, p)]
    return {name: won.count(name) for name in sorted({w.best for w in winners} | {w.second for w in winners})}


def _untestable(scores_JC: Floats) -> str | None:
    num_data_sets, num_columns = scores_JC.shape
    if num_columns < 3:
        return f"{num_columns} columns: Friedman's test compares three or more"
    if num_data_sets < 2:
        return "one data set: ranks cannot be compared over data sets"
    if (scores_JC == scores_JC[:, :1]).all():
        return "all columns score alike on every data set"
    return None


def _nemenyi_p(z_values: Floats, num_columns: int) -> list[float]:
    from scipy.stats import studentized_range

    return [float(p) for p in studentized_range.sf(np.sqrt(2) * z_values, num_columns, np.inf)]


def _critical_difference(num_columns: int, error: float, level: float) -> float:
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(level, num_columns, np.inf)) / np.sqrt(2) * error


def _normal_p(z_values: Floats) -> list[float]:
    from scipy.special import ndtr

    return [float(p) for p in 2 * ndtr(-z_values)]
