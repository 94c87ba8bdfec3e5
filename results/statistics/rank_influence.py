"""Spearman's rho as a mean over points, so that its interval can come from the same models as that of any mean.

rho is a functional of the joint distribution of x and y. Its influence function says how much each point moves it. rho
plus a point's influence is that point's share (a pseudo-value); the shares' mean is rho, and their variance over n is
the variance of rho (the delete-one jackknife in the limit; Hampel, JASA 69, 1974). With F and G the mid-distribution
functions (ties count half), u = F(x) - 1/2 and v = G(y) - 1/2:

    rho = N / sqrt(D_x D_y),    N = mean(u v),    D_x = mean(u^2),    D_y = mean(v^2)
    I_N(i) = u_i v_i + mean_j(c(x_i, x_j) v_j) + mean_j(c(y_i, y_j) u_j) - 3 N
    I_Dx(i) = u_i^2 + 2 mean_j(c(x_i, x_j) u_j) - 3 D_x
    I_rho(i) = I_N(i) / sqrt(D_x D_y) - rho / 2 (I_Dx(i) / D_x + I_Dy(i) / D_y)

where c(a, b) is 1 for a < b, 1/2 for a = b, 0 else.
"""

import numpy as np

from results.statistics.estimate import Floats


def spearman_shares(x_N: Floats, y_N: Floats) -> Floats | None:
    """(N,): rho plus each point's influence on it; their mean is rho. None where one of the two does not vary."""
    if len(x_N) < 2:
        return None
    u_N, v_N = _mid_distribution(x_N) - 0.5, _mid_distribution(y_N) - 0.5
    top, d_x, d_y = (float(np.mean(product)) for product in (u_N * v_N, u_N**2, v_N**2))
    if min(d_x, d_y) <= 0:
        return None
    rho = top / (d_x * d_y) ** 0.5
    of_top_N = u_N * v_N + _above(x_N, v_N) + _above(y_N, u_N) - 3 * top
    of_x_N = u_N**2 + 2 * _above(x_N, u_N) - 3 * d_x
    of_y_N = v_N**2 + 2 * _above(y_N, v_N) - 3 * d_y
    influence_N = of_top_N / (d_x * d_y) ** 0.5 - rho / 2 * (of_x_N / d_x + of_y_N / d_y)
    return np.asarray(rho + influence_N, dtype=np.float64)


def _mid_distribution(values_N: Floats) -> Floats:
    """The share of points below each, those equal (itself too) counted half."""
    rising = np.sort(values_N)
    below = np.searchsorted(rising, values_N, side="left")
    not_above = np.searchsorted(rising, values_N, side="right")
    return np.asarray((below + not_above) / (2 * len(values_N)), dtype=np.float64)


def _above(values_N: Floats, weights_N: Floats) -> Floats:
    """(N,): for each point the mean over all j of weights_j where values_j is above it, half of it where equal."""
    order = np.argsort(values_N, kind="stable")
    rising = values_N[order]
    sums = np.concatenate([[0.0], np.cumsum(weights_N[order])])
    below = np.searchsorted(rising, values_N, side="left")
    not_above = np.searchsorted(rising, values_N, side="right")
    return np.asarray((sums[-1] - (sums[below] + sums[not_above]) / 2) / len(values_N), dtype=np.float64)
