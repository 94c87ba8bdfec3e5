"""Delete-group jackknife: the bias and the interval of a smooth function of a mean over independent groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A bias-corrected value with its interval; None where there are too few groups for one."""

    value: float
    low: float | None
    high: float | None
    level: float | None


def delete_group(whole: float, without: Sequence[float], *, min_groups: int, level: float = LEVEL) -> Estimate:
    """The jackknife estimate from the value over all G groups and the G values with one group left out.

    Pseudo-values G * whole - (G - 1) * without_g (Quenouille 1956, Tukey 1958); their mean takes out the bias of order
    1 / G, and low and high are a Student interval with G - 1 degrees of freedom around it. Being linear, the estimate
    of a paired difference is the difference of the estimates. With fewer than two groups nothing is corrected.
    """
    num_groups = len(without)
    if num_groups < 2:
        return Estimate(value=whole, low=None, high=None, level=None)
    pseudo = num_groups * whole - (num_groups - 1) * np.asarray(without)
    value = float(pseudo.mean())
    if num_groups < min_groups:
        return Estimate(value=value, low=None, high=None, level=None)
    half = float(student_t.ppf((1 + level) / 2, num_groups - 1) * pseudo.std(ddof=1) / num_groups**0.5)
    return Estimate(value=value, low=value - half, high=value + half, level=level)
