"""An estimate with its interval and p value, what they speak of, and why one of them is absent."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Target = Literal["these data sets", "new data sets"]
Sources = Literal["seeds and queries", "these seeds only"]
"""What varies. 'these seeds only' takes the trained models as given: it says nothing of training once more."""

LEVEL = 0.95
ONE_SEED = "one seed: how much training with another seed would change is unknown"
NO_VARIANCE = "every seed and query gives the same value: there is no variance to judge it by"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean, difference or ratio.

    Attributes:
        value: the point estimate, in the unit of what was estimated (scores: 0 to 1); None with `reason`.
        standard_error: of `value`, same unit; None where the interval was found without one.
        df: (Satterthwaite) degrees of freedom of the t distribution that interval and p are from.
        low: the interval's lower end, `high` its upper one; None with `reason`.
        p: two-sided, of the null hypothesis that `value` is 0; None with `reason`.
        level: of the interval.
        target: which data sets it speaks of.
        sources: what was taken as random.
        num_seeds: of the smallest set of seeds in it.
        seed_share: the part of the variance that seeds bring, 0 to 1; None where it cannot be known.
        reason: why a number is absent, or with one seed what the interval leaves out; None where all is there.
    """

    value: float | None
    standard_error: float | None = None
    df: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    level: float = LEVEL
    target: Target = "these data sets"
    sources: Sources = "seeds and queries"
    num_seeds: int = 0
    seed_share: float | None = None
    reason: str | None = None


def t_interval(value: float, standard_error: float, df: float, level: float) -> tuple[float, float]:
    """The value -/+ t(df) * standard_error. `df` may be infinite."""
    half = t_quantile(level, df) * standard_error
    return value - half, value + half


def t_quantile(level: float, df: float) -> float:
    """The two-sided quantile of Student's t: |t| stays below it with probability `level`."""
    from scipy.special import (
        stdtrit,
    )  # imported where it is called: an eighth of a second, which `status` need not wait for

    return float(stdtrit(min(df, 1e12), 0.5 + level / 2))


def t_p(value: float, standard_error: float, df: float) -> float:
    """Two-sided p of value / standard_error under Student's t."""
    from scipy.special import stdtr

    return float(2 * stdtr(min(df, 1e12), -abs(value) / standard_error))
