"""Correlations over data sets: over all and within groups, with BCa interval, permutation p and leave-one-out.

Groups of data sets (in domain, BEIR, BRIGHT) differ in both quantities, which alone makes a correlation over all. So:

- within groups: Pearson of what is left after each group's mean is taken off both; Spearman of ranks within the group,
  less their mean; Kendall's tau-b over pairs of the same group.
- p comes from permuting one side within groups, for both scopes: what lies between groups is kept under the null.
- the interval is BCa (Efron, JASA 82, 1987); points are drawn within groups for 'within groups', from all otherwise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from results.statistics.bca import bca_interval
from results.statistics.coefficients import Coefficient, Ints, coefficient
from results.statistics.estimate import LEVEL, Floats
from results.statistics.within_groups import codes_of, draws_within, permutations_within

Scope = Literal["over all", "within groups"]
Outliers = Literal["with", "without"]
OUTLIER_RULE = "Tukey's fences: beyond 1.5 interquartile ranges from the quartiles, on either side"
NUM_DRAWS, NUM_PERMUTATIONS = 2_000, 9_999
_FEWEST = 4
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """One coefficient, -1 to 1.

    Attributes:
        coefficient: which.
        scope: over all points, or within groups.
        outliers: whether those by OUTLIER_RULE are in.
        n: points in it; within groups only those that share their group with another, since one alone carries nothing.
        num_alone: points that are left away for that.
        num_left_out: outliers that were taken away.
        value: None with `reason`.
        low: the BCa interval's lower end, `high` its upper one; None with `reason`.
        p: by permutation within groups, two-sided.
        left_out_low: the smallest value with one point left out, `left_out_high` the largest.
        most_influential: the index (in the arrays given) of the point whose absence changes the value most.
        reason: why a number is absent.
    """

    coefficient: Coefficient
    scope: Scope
    outliers: Outliers
    n: int
    num_left_out: int = 0
    num_alone: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    left_out_low: float | None = None
    left_out_high: float | None = None
    most_influential: int | None = None
    reason: str | None = None


def correlations(x_N: Floats, y_N: Floats, groups: Sequence[str], *, level: float = LEVEL) -> list[Correlation]:
    """Every coefficient, over all and within groups, with and without outliers.

    All their p values that a table shows go through `corrections.adjust` together.
    """
    return [
        correlate(x_N, y_N, groups, name, scope=scope, outliers=outliers, level=level)
        for scope in get_args(Scope)
        for outliers in get_args(Outliers)
        for name in get_args(Coefficient)
    ]


def correlate(
    x_N: Floats,
    y_N: Floats,
    groups: Sequence[str],
    name: Coefficient,
    *,
    scope: Scope = "within groups",
    outliers: Outliers = "with",
    level: float = LEVEL,
    seed: int = 0,
) -> Correlation:
    """One coefficient with all that it carries.

    Args:
        x_N: one value for each point (a data set), finite.
        y_N: the other, paired.
        groups: each point's group; one name for all where there are none.
        name: 'pearson', 'spearman' or 'kendall' (tau-b).
        scope: over all, or within groups.
        outliers: 'without' leaves out those of OUTLIER_RULE, found over all points.
        level: of the interval.
        seed: of draws and permutations.

    Raises:
        ValueError: arrays of different lengths, or a value that is missing or infinite.
    """
    _check(x_N, y_N, groups)
    is_kept_N = ~outliers_of(x_N, y_N) if outliers == "without" else np.ones(len(x_N), dtype=bool)
    num_left_out = len(groups) - int(is_kept_N.sum())
    kept_N = _carrying(np.flatnonzero(is_kept_N), groups) if scope == "within groups" else np.flatnonzero(is_kept_N)
    num_alone = len(groups) - num_left_out - len(kept_N)
    x_N, y_N, codes_N = x_N[kept_N], y_N[kept_N], codes_of([groups[place] for place in kept_N])
    found = Correlation(
        coefficient=name, scope=scope, outliers=outliers, n=len(kept_N), num_left_out=num_left_out, num_alone=num_alone
    )
    if len(kept_N) < _FEWEST:
        alone = f", {num_alone} more alone in a group" if num_alone else ""
        return replace(found, reason=f"{len(kept_N)} points{alone}: a correlation needs {_FEWEST}")
    strata_N = codes_N if scope == "within groups" else np.zeros_like(codes_N)
    value = float(coefficient(name, x_N[None], y_N[None], strata_N)[0])
    if np.isnan(value):
        return replace(found, reason=f"one of the two does not vary {scope}")
    left_out_N = _leave_one_out(name, x_N, y_N, strata_N)
    found = replace(found, value=value, p=_permutation_p(name, x_N, y_N, strata_N, codes_N, value, seed))
    return _with_interval(_with_left_out(found, left_out_N, kept_N), x_N, y_N, strata_N, left_out_N, level, seed)


def _carrying(kept_N: Ints, groups: Sequence[str]) -> Ints:
    """Those of the points that have another one in their group."""
    sizes = Counter(groups[place] for place in kept_N)
    return np.array([place for place in kept_N if sizes[groups[place]] > 1], dtype=np.int64)


def outliers_of(x_N: Floats, y_N: Floats) -> NDArray[np.bool_]:
    """(N,): which points OUTLIER_RULE names."""
    return _beyond_fences(x_N) | _beyond_fences(y_N)


def _beyond_fences(values_N: Floats) -> NDArray[np.bool_]:
    low, high = np.quantile(values_N, [0.25, 0.75])
    reach = 1.5 * (high - low)
    return (values_N < low - reach) | (values_N > high + reach)


def _check(x_N: Floats, y_N: Floats, groups: Sequence[str]) -> None:
    if not len(x_N) == len(y_N) == len(groups):
        raise ValueError(
            f"{len(x_N)}, {len(y_N)} and {len(groups)} points: a correlation needs pairs, each with a group"
        )
    if not (np.isfinite(x_N).all() and np.isfinite(y_N).all()):
        raise ValueError("a value is missing or infinite: leave its point out, and say so")


def _leave_one_out(name: Coefficient, x_N: Floats, y_N: Floats, strata_N: Ints) -> Floats:
    rest = [np.delete(np.arange(len(x_N)), i) for i in range(len(x_N))]
    return np.array([coefficient(name, x_N[r][None], y_N[r][None], strata_N[r])[0] for r in rest])


def _with_left_out(found: Correlation, left_out_N: Floats, kept_N: Ints) -> Correlation:
    if np.isnan(left_out_N).all():
        return found
    change_N = np.nan_to_num(np.abs(left_out_N - (found.value or 0.0)), nan=-1.0)
    return replace(
        found,
        left_out_low=float(np.nanmin(left_out_N)),
        left_out_high=float(np.nanmax(left_out_N)),
        most_influential=int(kept_N[np.argmax(change_N)]),
    )


def _permutation_p(
    name: Coefficient, x_N: Floats, y_N: Floats, strata_N: Ints, codes_N: Ints, value: float, seed: int
) -> float:
    """The share of permutations whose coefficient lies as far from their mean; drawn ones count the observed."""
    order_BN, is_exact = permutations_within(codes_N, NUM_PERMUTATIONS, seed)
    permuted_B = coefficient(name, x_N[None], y_N[order_BN], strata_N)
    centre = permuted_B.mean()
    num_as_far = int((np.abs(permuted_B - centre) >= abs(value - centre) - 1e-9).sum())
    return num_as_far / len(permuted_B) if is_exact else (1 + num_as_far) / (1 + len(permuted_B))


def _with_interval(
    found: Correlation,
    x_N: Floats,
    y_N: Floats,
    strata_N: Ints,
    left_out_N: Floats,
    level: float,
    seed: int,
) -> Correlation:
    chosen_BN = draws_within(strata_N, NUM_DRAWS, seed)
    drawn_B = coefficient(found.coefficient, x_N[chosen_BN], y_N[chosen_BN], strata_N)
    is_defined_B = np.isfinite(drawn_B)
    if is_defined_B.mean() < 1 - _MOST_UNDEFINED:
        return replace(found, reason="too few different points for an interval: many draws have no correlation")
    assert found.value is not None
    interval = bca_interval(found.value, drawn_B[is_defined_B], left_out_N, level)
    if interval is None:
        return replace(found, reason="the draws do not spread around the value: no BCa interval")
    return replace(found, low=interval[0], high=interval[1])
