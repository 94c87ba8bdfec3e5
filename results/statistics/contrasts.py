"""Contrasts of similarities, groups and trainings through the two-way model: gains, claims, non-inferiority."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from results.statistics.estimate import LEVEL, Estimate, Sources, Target, t_p
from results.statistics.groups import GroupScores, coefficient_vector, contrast_layouts, shared_data_sets
from results.statistics.power import MIN_SEEDS
from results.statistics.two_way import Layout, estimate_mean

Verdict = Literal["confirmed", "refuted", "undecided"]
MARGIN = 0.005
"""Of non-inferiority: half a point of nDCG, which is 0 to 1 here."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """`weight` times the group mean of the sum of columns with `coefficients`."""

    group: GroupScores
    coefficients: Mapping[str, float]
    weight: float = 1.0


def estimate_contrast(
    terms: Sequence[Term],
    *,
    target: Target = "these data sets",
    sources: Sources = "seeds and queries",
    level: float = LEVEL,
) -> Estimate:
    """The sum of the terms, with interval and p; in the unit of the scores.

    - A gain: one term with `gain_of(similarity, baseline)`.
    - Out of domain minus in domain: that gain on both groups, with the weights 1 and -1.
    - Two init regimes: one term of each, whose groups have different `trainings`; queries stay paired.

    Seeds are paired where groups have the same `trainings`, queries where data sets have the same name, data sets where
    groups have the same name. Seeds and queries stand in one order everywhere, as `dense.dense_scores` gives them.
    For 'new data sets' a data set in two of the groups leaves interval and p absent: the groups would be no samples of
    their own.

    Raises:
        ValueError: two groups of one name with different data sets, a column that a group lacks, or holes.
    """
    _refuse_unlike_groups(terms)
    layouts = [layout for term in terms for layout in _layouts(term, target)]
    found = estimate_mean(layouts, target=target, sources=sources, level=level)
    both = shared_data_sets(_different_groups(terms)) if target == "new data sets" else []
    if both:
        reason = f"{', '.join(both)} counts in two of the groups: they are no separate samples of data sets"
        return Estimate(value=found.value, target=target, level=level, num_seeds=found.num_seeds, reason=reason)
    return found


def gain_of(similarity: str, baseline: str) -> dict[str, float]:
    """The coefficients of `similarity` minus `baseline`: none but zeros where they are the same."""
    return {similarity: 1.0, baseline: -1.0} if similarity != baseline else {}


def mean_against(similarities: Sequence[str], baseline: str) -> dict[str, float]:
    """The coefficients of the mean of several similarities (not the best of them) minus `baseline`."""
    return {**dict.fromkeys(similarities, 1 / len(similarities)), baseline: -1.0}


def paired_gain(
    group: GroupScores,
    similarity: str,
    baseline: str,
    *,
    target: Target = "these data sets",
    sources: Sources = "seeds and queries",
    level: float = LEVEL,
) -> Estimate:
    """Mean score of `similarity` minus that of `baseline` on a group or, with a single data set, on that."""
    term = Term(group=group, coefficients=gain_of(similarity, baseline))
    return estimate_contrast([term], target=target, sources=sources, level=level)


def non_inferiority(difference: Estimate, margin: float = MARGIN) -> Estimate:
    """`difference` with the two-sided p of the null hypothesis that it is -margin.

    So p is below 0.05 exactly where the 95 % interval leaves out -margin, on either side, and stands with other
    two-sided ones in one correction. Absent where `difference` has no p.

    Raises:
        ValueError: a margin that is not positive.
    """
    if not margin > 0:
        raise ValueError(f"margin {margin}: non-inferiority needs one above 0")
    if difference.value is None or difference.standard_error is None:
        return replace(difference, p=None)
    above = difference.value + margin
    if difference.standard_error == 0 or difference.df is None:
        return replace(difference, p=0.0 if above else 1.0)
    return replace(difference, p=t_p(above, difference.standard_error, difference.df))


def claim_verdict(difference: Estimate, adjusted_p: float | None, *, expected_sign: Literal[1, -1]) -> Verdict:
    """'confirmed' or 'refuted' where `adjusted_p` tells the difference from 0, by the side it lies on.

    An estimate for 'these seeds only', or from fewer than MIN_SEEDS seeds, decides nothing about a claim on training.
    """
    if adjusted_p is None or difference.value is None or not _can_decide(difference):
        return "undecided"
    if adjusted_p > 1 - difference.level:
        return "undecided"
    return "confirmed" if difference.value * expected_sign > 0 else "refuted"


def non_inferiority_verdict(difference: Estimate, adjusted_p: float | None, margin: float = MARGIN) -> Verdict:
    """'confirmed' or 'refuted' where `adjusted_p` (of `non_inferiority`) tells it from -margin, by its side."""
    if difference.value is None:
        return "undecided"
    return claim_verdict(replace(difference, value=difference.value + margin), adjusted_p, expected_sign=1)


def _can_decide(difference: Estimate) -> bool:
    return difference.sources == "seeds and queries" and difference.num_seeds >= MIN_SEEDS


def _layouts(term: Term, target: Target) -> list[Layout]:
    vector_C = coefficient_vector(term.group, term.coefficients)
    return contrast_layouts(term.group, vector_C, target=target, weight=term.weight)


def _refuse_unlike_groups(terms: Sequence[Term]) -> None:
    members: dict[str, set[str]] = {}
    for term in terms:
        names = {part.name for part in term.group.data_sets}
        unlike = members.setdefault(term.group.name, names) ^ names
        if unlike:
            raise ValueError(
                f"group '{term.group.name}' comes with and without {', '.join(sorted(unlike))}: "
                f"like is compared with like"
            )


def _different_groups(terms: Sequence[Term]) -> list[GroupScores]:
    """One of each name: the same group under two trainings is still one sample of data sets."""
    return list({term.group.name: term.group for term in terms}.values())
