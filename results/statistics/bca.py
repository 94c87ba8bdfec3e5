"""The bias-corrected and accelerated bootstrap interval of a statistic."""

import numpy as np

from results.statistics.estimate import Floats

_NO_SPREAD = 1e-12


def bca_interval(value: float, drawn_B: Floats, left_out_N: Floats, level: float) -> tuple[float, float] | None:
    """Efron's BCa interval (Better bootstrap confidence intervals, JASA 82, 1987).

    Args:
        value: the statistic itself.
        drawn_B: in bootstrap draws, finite.
        left_out_N: with one point left out, from which the acceleration is; those that are nan are not used.
        level: of the interval.

    Returns:
        Its ends, or None where draws do not spread, or all lie on one side of the value.
    """
    below = float(np.mean(drawn_B < value) + np.mean(drawn_B == value) / 2)
    if not 0 < below < 1 or np.ptp(drawn_B) < _NO_SPREAD:
        return None
    from scipy.special import ndtr, ndtri

    bias, acceleration = float(ndtri(below)), _acceleration(left_out_N[np.isfinite(left_out_N)])
    z_values = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    shares = ndtr(bias + z_values / (1 - acceleration * z_values))
    low, high = np.quantile(drawn_B, shares)
    return float(low), float(high)


def _acceleration(left_out_N: Floats) -> float:
    distance_N = left_out_N.mean() - left_out_N if left_out_N.size else np.zeros(1)
    squares = float((distance_N**2).sum())
    return float((distance_N**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0
