"""Delete-group jackknife: the bias and the interval of a smooth function of a mean over independent groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

# Pools of real embeddings are skewed, and the ends of a spectrum are not smooth where eigenvalues cross. In simulations
# from real embeddings intervals at Student's 0.95 covered 0.79 to 0.95 of the true differences, at 0.99 0.93 to 0.99.
# So they are made at 0.99 and promise 0.90.
STUDENT_LEVEL = 0.99
LEVEL = 0.90


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A bias-corrected value with the interval that covers it at `LEVEL`; no bounds where none can be trusted."""

    value: float
    low: float | None = None
    high: float | None = None


def delete_group(whole: float, without: Sequence[float]) -> Estimate:
    """The estimate from the value over all G groups and the G values with one group left out.

    Pseudo-values G * whole - (G - 1) * without_g (Quenouille 1956, Tukey 1958): their mean takes out the bias of order
    1 / G, their deviation gives a Student interval with G - 1 degrees of freedom. Being linear, the estimate of a
    difference is the difference of the estimates. Values that are not finite, or a single group, allow neither.
    """
    num_groups = len(without)
    if num_groups < 2 or not np.isfinite(without).all():
        return Estimate(value=whole)
    pseudo = num_groups * whole - (num_groups - 1) * np.asarray(without)
    value = float(pseudo.mean())
    quantile = student_t.ppf((1 + STUDENT_LEVEL) / 2, num_groups - 1)
    half = float(quantile * pseudo.std(ddof=1) / num_groups**0.5)
    return Estimate(value=value, low=value - half, high=value + half)
