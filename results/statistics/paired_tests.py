"""Per query paired tests on one data set: t, sign-flip permutation, Wilcoxon. They speak of 'these seeds only'.

Differences are averaged over seeds first, query by query, so the trained checkpoints are taken as given. A test of what
training gives is `contrasts.paired_gain`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from results.statistics.estimate import Floats, Sources, t_p
from results.statistics.groups import DataSetScores, GroupScores, coefficient_vector, contrast_layouts
from results.statistics.sign_flips import sign_flip_p

PairedTest = Literal["t", "permutation", "wilcoxon"]
ALL_EQUAL = "every query has the same difference: there is no variance to judge it by"
ONE_QUERY = "one query: no paired test"


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """What a paired test found.

    Attributes:
        test: which.
        mean_difference: in the unit of the scores.
        p: two-sided, None with `reason`.
        d_z: the paired effect size, mean difference in standard deviations of the differences between queries (Cohen,
            Statistical Power Analysis, 1988, ch. 2.3.5); None where that deviation is 0 or unknown.
        num_queries: of the data set.
        sources: what was taken as random.
        reason: why p is absent.
    """

    test: PairedTest
    mean_difference: float
    p: float | None
    d_z: float | None
    num_queries: int
    sources: Sources = "these seeds only"
    reason: str | None = None


def query_differences(values_SQ: Floats, baseline_SQ: Floats) -> Floats:
    """(Q,): the paired difference of each query, averaged over seeds.

    Raises:
        ValueError: the two differ in shape, or hold a value that is missing or infinite.
    """
    if values_SQ.shape != baseline_SQ.shape:
        raise ValueError(f"shapes {values_SQ.shape} and {baseline_SQ.shape}: a paired test needs the same queries")
    difference_Q: Floats = (values_SQ - baseline_SQ).mean(axis=0)
    if not np.isfinite(difference_Q).all():
        raise ValueError("a score is missing or infinite; a paired test has no holes")
    return difference_Q


def paired_test(difference_Q: Floats, test: PairedTest = "t") -> PairedResult:
    """Whether the differences are centred at 0: their mean (t, permutation) or their signed ranks (wilcoxon).

    Where all are 0, p is 1.
    """
    mean = float(difference_Q.mean())
    num_queries = len(difference_Q)
    found = PairedResult(test=test, mean_difference=mean, p=1.0, d_z=None, num_queries=num_queries)
    if not np.any(difference_Q):
        return found
    if num_queries < 2:
        return replace(found, p=None, reason=ONE_QUERY)
    std = float(difference_Q.std(ddof=1))
    if std > 1e-12 * abs(mean):
        return replace(found, p=_p(difference_Q, test, mean, std), d_z=mean / std)
    if test == "t":
        return replace(found, p=None, reason=ALL_EQUAL)
    return replace(found, p=_p(difference_Q, test, mean, std))


def _p(difference_Q: Floats, test: PairedTest, mean: float, std: float) -> float:
    if test == "t":
        return t_p(mean, std / len(difference_Q) ** 0.5, len(difference_Q) - 1)
    if test == "permutation":
        return float(sign_flip_p(difference_Q[:, None])[0])
    from scipy.stats import wilcoxon  # a second to import, and seldom asked for

    # Pratt keeps zeros in the ranking: with nDCG most queries may not differ at all.
    return float(wilcoxon(difference_Q, zero_method="pratt").pvalue)


def group_differences(group: GroupScores, similarity: str, baseline: str) -> Floats:
    """(N,): one paired difference for each query of a group, weighted so that their mean is the group's gain.

    Seeds are averaged first. Every data set weighs alike, and every part of one, however many queries it has. Flipping
    signs query by query keeps that, so `sign_flips` tests the group's gain for 'these seeds only'.
    """
    vector_C = coefficient_vector(group, {similarity: 1.0, baseline: -1.0})
    layouts = contrast_layouts(group, vector_C, target="these data sets")
    num = sum(layout.values_SQ.shape[1] for layout in layouts)
    return np.concatenate(
        [layout.values_SQ.mean(axis=0) * (layout.weight * num / layout.values_SQ.shape[1]) for layout in layouts]
    )


def data_set_gains(group: GroupScores, similarity: str, baseline: str) -> Floats:
    """(J,): the gain on each data set of a group, over seeds, queries and parts."""
    vector_C = coefficient_vector(group, {similarity: 1.0, baseline: -1.0})
    return np.array([vector_C @ _mean_scores(parts) for parts in group.members.values()])


def d_z(difference_N: Floats) -> float | None:
    """The paired effect size, mean in standard deviations; None where there is no deviation."""
    std = float(difference_N.std(ddof=1)) if len(difference_N) > 1 else 0.0
    mean = float(difference_N.mean())
    return mean / std if std > 1e-12 * abs(mean) else None


def _mean_scores(parts: Sequence[DataSetScores]) -> Floats:
    return np.asarray(np.mean([part.values_CSQ.mean(axis=(1, 2)) for part in parts], axis=0))
