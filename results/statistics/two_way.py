"""Means over seeds crossed with queries: variance, degrees of freedom, interval and p from one random effects model.

Every seed's checkpoint answers every query of a data set, so scores are a crossed layout, and paired differences of two
similarities are one, too:

    y_sq = mean + a_s + b_q + e_sq,    a_s, b_q, e_sq random with variances A, B, E.

The mean over S seeds and Q queries has the variance A/S + B/Q + E/(SQ), estimated without bias by V_a + V_b - V_e:
V_a is the variance of the seed means over S, V_b that of the query means over Q, V_e the residual mean square over SQ
(Searle, Casella, McCulloch, Variance Components, 1992, ch. 4.7). Its degrees of freedom are Satterthwaite's (Biometrics
Bulletin 2, 1946). A component whose estimate is negative counts as 0.

A group is a weighted sum of such layouts. Those with the same seeds (one checkpoint evaluated on several data sets) are
added up seed by seed before the variance is taken, those with the same queries (two trainings on one data set) query by
query, so that what they share is neither lost nor counted twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from results.statistics.estimate import (
    LEVEL,
    NO_VARIANCE,
    ONE_SEED,
    Estimate,
    Floats,
    Sources,
    Target,
    t_interval,
    t_p,
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Seeds crossed with queries (or, for new data sets, with data sets).

    Attributes:
        values_SQ: scores or paired differences, finite.
        weight: with which its mean enters the sum.
        seeds: layouts of one label were made by the same checkpoints, in the same order.
        queries: layouts of one label were measured on the same queries, in the same order.
    """

    values_SQ: Floats
    weight: float
    seeds: str
    queries: str


@dataclass(frozen=True, kw_only=True)
class Component:
    """What one source brings to the variance of a sum of means: a scaled mean square and its df for each label."""

    variance_N: Floats
    df_N: Floats

    @property
    def variance(self) -> float:
        """Of all labels together."""
        return float(self.variance_N.sum())

    @property
    def squared_over_df(self) -> float:
        """Satterthwaite's denominator."""
        return float((self.variance_N**2 / self.df_N).sum())


@dataclass(frozen=True, kw_only=True)
class Components:
    """The three mean squares of a sum of layouts, before the residual is taken out of the other two."""

    seeds: Component
    queries: Component
    rest: Component


@dataclass(frozen=True, kw_only=True)
class Variance:
    """The variance of a weighted sum of means, its degrees of freedom, and the part that seeds bring (0 to 1)."""

    variance: float
    df: float
    seed_share: float | None


def mean_of(layouts: Sequence[Layout]) -> float:
    """The weighted sum of the layouts' means."""
    return float(sum(layout.weight * layout.values_SQ.mean() for layout in layouts))


def components_of(layouts: Sequence[Layout]) -> Components:
    """The mean squares of `mean_of`. Each layout needs two seeds and two queries."""
    merged = _merged(layouts)
    return Components(
        seeds=_by_label(merged, lambda layout: layout.seeds, 1),
        queries=_by_label(merged, lambda layout: layout.queries, 0),
        rest=_residuals(merged),
    )


def combine(components: Components) -> Variance:
    """The variance of the sum of means that these are the mean squares of."""
    seeds, queries, rest = (part.variance for part in (components.seeds, components.queries, components.rest))
    if seeds >= rest and queries >= rest:
        variance = seeds + queries - rest
        kept = [components.seeds, components.queries, components.rest]
    else:  # an estimate below zero counts as zero, which leaves the largest of the three
        variance = max(seeds, queries, rest)
        kept = [max(vars(components).values(), key=lambda component: component.variance)]
    is_known = variance > 0 and components.seeds.df_N.size > 0
    share = max(seeds - rest, 0.0) / variance if is_known else None
    return Variance(variance=variance, df=_satterthwaite(variance, kept), seed_share=share)


def fixed_seeds_components(layouts: Sequence[Layout]) -> Components:
    """Those of `mean_of` with these very checkpoints: only queries are random. Each layout needs two queries.

    The query means are over the seeds given, so their mean square holds the residual, too.
    """
    nothing = Component(variance_N=np.empty(0), df_N=np.empty(0))
    queries = _by_label(_merged(layouts), lambda layout: layout.queries, 0)
    return Components(seeds=nothing, queries=queries, rest=nothing)


def estimate_mean(
    layouts: Sequence[Layout],
    *,
    target: Target = "these data sets",
    sources: Sources = "seeds and queries",
    level: float = LEVEL,
) -> Estimate:
    """The weighted sum of means, with interval and p from the two-way model.

    With one seed only what 'these seeds only' allows: queries are random, the checkpoint is given.

    Args:
        layouts: at least one; their values in the unit of the result.
        target: what the layouts' second axis stands for, as the estimate is to be labelled.
        sources: what is random; 'these seeds only' takes the checkpoints as given.
        level: of the interval.

    Raises:
        ValueError: no layout, one without values, one with a value that is not finite, or layouts of one label that
            differ in length.
    """
    _check(layouts)
    num_seeds = min(layout.values_SQ.shape[0] for layout in layouts)
    sources = "these seeds only" if num_seeds == 1 else sources
    reason = ONE_SEED if num_seeds == 1 else None
    found = Estimate(
        value=mean_of(layouts), level=level, target=target, sources=sources, num_seeds=num_seeds, reason=reason
    )
    short = _too_short(layouts, target)
    if short:
        return replace(found, reason=short)
    components = fixed_seeds_components if sources == "these seeds only" else components_of
    return with_variance(found, combine(components(layouts)))


def with_variance(estimate: Estimate, variance: Variance) -> Estimate:
    """`estimate` with interval and p. Where nothing varies: p 1 and no width at 0, absent elsewhere."""
    assert estimate.value is not None
    error = float(np.sqrt(variance.variance))
    if error <= 1e-12 * max(abs(estimate.value), 1e-3):  # rounding of equal numbers
        if abs(estimate.value) <= 1e-12:
            return replace(estimate, standard_error=0.0, low=0.0, high=0.0, p=1.0)
        return replace(estimate, reason=NO_VARIANCE)
    low, high = t_interval(estimate.value, error, variance.df, estimate.level)
    return replace(
        estimate,
        standard_error=error,
        df=variance.df,
        low=low,
        high=high,
        p=t_p(estimate.value, error, variance.df),
        seed_share=variance.seed_share,
    )


def _merged(layouts: Sequence[Layout]) -> list[Layout]:
    """Layouts of the same seeds and queries are one: their weighted sum, cell by cell."""
    found: dict[tuple[str, str], Floats] = {}
    for layout in layouts:
        key, values_SQ = (layout.seeds, layout.queries), layout.weight * layout.values_SQ
        found[key] = found[key] + values_SQ if key in found else values_SQ
    return [Layout(values_SQ=v_SQ, weight=1.0, seeds=s, queries=q) for (s, q), v_SQ in found.items()]


def _by_label(merged: Sequence[Layout], label: Callable[[Layout], str], axis: int) -> Component:
    """The variance of the mean of each label's means, which are averaged over `axis` and added up over its layouts."""
    sums: dict[str, Floats] = {}
    for layout in merged:
        means = layout.values_SQ.mean(axis=axis)
        sums[label(layout)] = sums[label(layout)] + means if label(layout) in sums else means
    return Component(
        variance_N=np.array([values.var(ddof=1) / len(values) for values in sums.values()]),
        df_N=np.array([len(values) - 1.0 for values in sums.values()]),
    )


def _residuals(merged: Sequence[Layout]) -> Component:
    df_N = np.array([(layout.values_SQ.shape[0] - 1.0) * (layout.values_SQ.shape[1] - 1.0) for layout in merged])
    squares_N = np.array([_residual_squares(layout.values_SQ) / layout.values_SQ.size for layout in merged])
    return Component(variance_N=squares_N / df_N, df_N=df_N)


def _residual_squares(values_SQ: Floats) -> float:
    # The grand mean comes back once, since both margins took it away.
    rest_SQ = values_SQ - values_SQ.mean(axis=1, keepdims=True) - (values_SQ.mean(axis=0) - values_SQ.mean())
    return float(np.einsum("sq,sq->", rest_SQ, rest_SQ))


def _satterthwaite(variance: float, kept: Sequence[Component]) -> float:
    denominator = sum(component.squared_over_df for component in kept)
    return variance**2 / denominator if denominator > 0 else float("inf")


def _check(layouts: Sequence[Layout]) -> None:
    if not layouts:
        raise ValueError("a mean needs at least one layout of seeds and queries")
    for layout in layouts:
        if layout.values_SQ.ndim != 2 or layout.values_SQ.size == 0:
            raise ValueError(f"'{layout.queries}': shape {layout.values_SQ.shape}, a layout is (seeds, queries)")
        if not np.isfinite(layout.values_SQ).all():
            raise ValueError(f"'{layout.queries}': a value is missing or infinite; a crossed layout has no holes")
    _check_lengths("seeds", [(layout.seeds, layout.values_SQ.shape[0]) for layout in layouts])
    _check_lengths("queries", [(layout.queries, layout.values_SQ.shape[1]) for layout in layouts])


def _check_lengths(what: str, labelled: Sequence[tuple[str, int]]) -> None:
    lengths: dict[str, int] = {}
    for label, length in labelled:
        if lengths.setdefault(label, length) != length:
            raise ValueError(f"{what} '{label}': {lengths[label]} in one layout and {length} in another")


def _too_short(layouts: Sequence[Layout], target: Target) -> str | None:
    unit = "query" if target == "these data sets" else "data set"
    alone = [layout.queries for layout in layouts if layout.values_SQ.shape[1] < 2]
    return f"one {unit} in '{alone[0]}': its variance is unknown" if alone else None
