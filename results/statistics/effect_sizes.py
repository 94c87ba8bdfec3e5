"""How far apart two samples of norms lie, and how widely one spreads."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

D_UNIT = "pooled standard deviations of document norms"
# Norms whose relative spread is below this are the same: an encoder whose last step normalises (unit vectors, a
# LayerNorm without trained weights) leaves float32's rounding of them, some 1e-7, whose mean differs by text length.
SAME_NORMS = 1e-6


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What an effect size needs of a sample: number, mean and standard deviation (with n - 1), in its own unit."""

    num: int
    mean: float
    std: float


@dataclass(frozen=True, kw_only=True)
class CohenD:
    """A standardised difference of means, and its unit; None with `reason`."""

    value: float | None
    num_first: int
    num_second: int
    unit: str = D_UNIT
    reason: str | None = None


def sample_of(values_N: ArrayLike) -> Sample:
    """That of an array; its deviation is nan where there are fewer than two values."""
    values = np.asarray(values_N, dtype=np.float64)
    std = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return Sample(num=len(values), mean=float(values.mean()) if len(values) else float("nan"), std=std)


def cohen_d(first: Sample, second: Sample, *, unit: str = D_UNIT) -> CohenD:
    """(mean of first - mean of second) / pooled standard deviation (Cohen, Statistical Power Analysis, 1988, ch. 2.5).

    The pooled variance is ((n1 - 1) s1^2 + (n2 - 1) s2^2) / (n1 + n2 - 2). For the magnitude analysis `first` are the
    norms of relevant documents, `second` those of irrelevant ones: above 0, relevant documents are longer.
    """
    found = CohenD(value=None, num_first=first.num, num_second=second.num, unit=unit)
    if min(first.num, second.num) < 2:
        return CohenD(**{**vars(found), "reason": f"{first.num} and {second.num} values: each side needs two"})
    squares = (first.num - 1) * first.std**2 + (second.num - 1) * second.std**2
    pooled = (squares / (first.num + second.num - 2)) ** 0.5
    if not pooled > SAME_NORMS * max(abs(first.mean), abs(second.mean)):
        return CohenD(**{**vars(found), "reason": "all values are equal: they have no standard deviation"})
    return CohenD(**{**vars(found), "value": (first.mean - second.mean) / pooled})


def coefficient_of_variation(sample: Sample) -> float | None:
    """Standard deviation over mean, without unit; None with fewer than two values or a mean of 0 or less."""
    return sample.std / sample.mean if sample.num > 1 and sample.mean > 0 else None
