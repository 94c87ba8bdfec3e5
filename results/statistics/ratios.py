"""Relative gains with intervals: `ratio_of_means` by Fieller's theorem, `mean_of_ratios` by the delta method.

Both are inverted or linearised through the same two-way model as the gain itself.

- `ratio_of_means` r = (m1 - m0) / m0: the interval holds every r for which m1 - (1 + r) m0, a contrast with a two-way
  variance and Satterthwaite df of its own, cannot be told from 0 (Fieller, JRSS B 16, 1954). So it leaves out 0 exactly
  where the gain's p is below 1 - level, and is as skewed as the ratio is. The delta method's symmetric interval would
  contradict the gain's p; percentiles of the crossed bootstrap are too narrow with few seeds.
- `mean_of_ratios`, the mean of r_j over data sets, has no Fieller interval. Each r_j is linearised:
  r_j + mean over seeds and queries of (y1 - (1 + r_j) y0) / m0_j, whose two-way variance is that of r_j to first order.

A ratio has no meaning near a baseline of 0: where the baseline's interval reaches MIN_BASELINE it is absent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from results.statistics.contrasts import Term, estimate_contrast, paired_gain
from results.statistics.estimate import LEVEL, Estimate, Floats, Target, t_quantile
from results.statistics.groups import DataSetScores, GroupScores, coefficient_vector, contrast_layouts
from results.statistics.two_way import (
    Component,
    Components,
    Variance,
    combine,
    components_of,
    fixed_seeds_components,
    mean_of,
)

MIN_BASELINE = 0.005
"""Half a point of nDCG, which is 0 to 1 here."""
_MOST_STEPS, _EXACT = 100, 1e-13  # of false position; relative


def ratio_of_means(
    group: GroupScores, similarity: str, baseline: str, *, target: Target = "these data sets", level: float = LEVEL
) -> Estimate:
    """(mean of `similarity` - mean of `baseline`) / mean of `baseline`, with Fieller's interval; 0.1 is +10 %.

    p, df and seed share are the gain's. `standard_error` is absent, since the interval is not built from one.
    """
    gain = paired_gain(group, similarity, baseline, target=target, level=level)
    base = _mean(group, baseline, target=target, level=level)
    too_low = _too_low(base, f"group '{group.name}'")
    if too_low is not None:
        return _absent(gain, too_low)
    assert gain.value is not None
    assert base.value is not None
    ratio = replace(gain, value=gain.value / base.value, standard_error=None)
    if gain.low is None or gain.standard_error == 0:
        return replace(ratio, low=gain.low, high=gain.high)
    low, high = _fieller_bounds(_two_columns(group, similarity, baseline, target), level)
    return replace(ratio, low=low - 1, high=high - 1)


def mean_of_ratios(
    group: GroupScores, similarity: str, baseline: str, *, target: Target = "these data sets", level: float = LEVEL
) -> Estimate:
    """The unweighted mean over data sets of each one's relative gain; 0.1 is +10 %.

    Absent, with the data set's name, where the baseline's interval on one of them reaches MIN_BASELINE: one data set
    at the bottom of the scale would decide the mean.
    """
    linear: list[DataSetScores] = []
    for name, parts in group.members.items():
        alone = replace(group, name=name, data_sets=tuple(parts))
        base = _mean(alone, baseline, target="these data sets", level=level)
        too_low = _too_low(base, f"data set '{name}'")
        if too_low is not None:
            return _absent(paired_gain(group, similarity, baseline, target=target, level=level), too_low)
        linear += _linearised(alone, similarity, baseline)
    around = replace(group, columns=("ratio",), data_sets=tuple(linear))
    return _mean(around, "ratio", target=target, level=level)


def _mean(group: GroupScores, column: str, *, target: Target, level: float) -> Estimate:
    return estimate_contrast([Term(group=group, coefficients={column: 1.0})], target=target, level=level)


def _too_low(base: Estimate, where: str) -> str | None:
    if base.low is None:
        return f"the baseline's interval on {where} is unknown ({base.reason}), and a ratio needs it"
    if base.low > MIN_BASELINE:
        return None
    return (
        f"the baseline's interval on {where} reaches {100 * MIN_BASELINE:g} points "
        f"({100 * base.low:.2f} to {100 * (base.high or 0):.2f}): there is no meaningful ratio"
    )


def _absent(gain: Estimate, reason: str) -> Estimate:
    return Estimate(
        value=None,
        level=gain.level,
        target=gain.target,
        sources=gain.sources,
        num_seeds=gain.num_seeds,
        reason=reason,
    )


def _linearised(alone: GroupScores, similarity: str, baseline: str) -> list[DataSetScores]:
    """Of one data set: values (1, S, Q) whose mean is its relative gain, and whose spread is that of the ratio."""
    one_C, base_C = (coefficient_vector(alone, {name: 1.0}) for name in (similarity, baseline))
    means = [mean_of(contrast_layouts(alone, vector_C, target="these data sets")) for vector_C in (one_C, base_C)]
    ratio = means[0] / means[1]
    vector_C = (one_C - ratio * base_C) / means[1]
    return [
        replace(part, values_CSQ=ratio - 1 + np.tensordot(vector_C[None], part.values_CSQ, axes=1))
        for part in alone.data_sets
    ]


@dataclass(frozen=True, kw_only=True)
class _TwoColumns:
    """Means of both columns, and the mean squares of each and of their sum."""

    means: tuple[float, float]
    one: Components
    base: Components
    both: Components

    def variance(self, k: float) -> Variance:
        """Of (mean of one) - k (mean of base): a quadratic in k in each mean square."""
        return combine(
            Components(
                seeds=self._at(k, lambda components: components.seeds),
                queries=self._at(k, lambda components: components.queries),
                rest=self._at(k, lambda components: components.rest),
            )
        )

    def _at(self, k: float, part: Callable[[Components], Component]) -> Component:
        one, base, both = part(self.one), part(self.base), part(self.both)
        covariance_N: Floats = (both.variance_N - one.variance_N - base.variance_N) / 2
        variance_N = one.variance_N - 2 * k * covariance_N + k**2 * base.variance_N
        return Component(variance_N=np.maximum(variance_N, 0.0), df_N=one.df_N)


def _two_columns(group: GroupScores, similarity: str, baseline: str, target: Target) -> _TwoColumns:
    one_C, base_C = (coefficient_vector(group, {name: 1.0}) for name in (similarity, baseline))
    one, base, both = (contrast_layouts(group, vector_C, target=target) for vector_C in (one_C, base_C, one_C + base_C))
    # One row: a single seed, or data sets with trainings of their own.
    components = fixed_seeds_components if one[0].values_SQ.shape[0] == 1 else components_of
    means = (mean_of(one), mean_of(base))
    return _TwoColumns(means=means, one=components(one), base=components(base), both=components(both))


def _fieller_bounds(columns: _TwoColumns, level: float) -> tuple[float, float]:
    """The ratios of means around the estimate that its test does not exclude.

    They are bounded: the baseline's own interval, the limit of large ratios, lies above 0.
    """
    one, base = columns.means

    def excess(k: float) -> float:
        found = columns.variance(k)
        return abs(one - k * base) - t_quantile(level, found.df) * found.variance**0.5

    centre = one / base
    # Never 0, not even where one column is a multiple of the other and the ratio has no variance.
    step = max(columns.variance(centre).variance ** 0.5, 1e-9 * one) / base
    return _edge(excess, centre, -step), _edge(excess, centre, step)


def _edge(excess: Callable[[float], float], inside: float, step: float) -> float:
    """Where `excess` becomes positive in the direction of `step`: by doubling, then false position.

    By the Illinois rule, which takes half a dozen steps where `excess` is nearly a line, as here; scipy's root finders
    take a second to import.
    """
    outside = inside + step
    while (above := excess(outside)) <= 0:
        inside, outside = outside, outside + 2 * (outside - inside)
    below = excess(inside)
    moved = ""
    for _ in range(_MOST_STEPS):
        between = (inside * above - outside * below) / (above - below)
        found = excess(between)
        if abs(found) < _EXACT * abs(between) or abs(outside - inside) < _EXACT * abs(between):
            return between
        # An end that stays twice in a row is taken for half as far from 0: halved each time, steps would only bisect.
        if found * above > 0:
            outside, above = between, found
            below = below / 2 if moved == "outside" else below
            moved = "outside"
        else:
            inside, below = between, found
            above = above / 2 if moved == "inside" else above
            moved = "inside"
    return outside
