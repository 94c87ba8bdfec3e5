"""Pearson, Spearman and Kendall's tau-b of many rows at once, over all points or pooled within strata."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from results.statistics.estimate import Floats

Coefficient = Literal["pearson", "spearman", "kendall"]
Ints = NDArray[np.int64]
_CELLS_AT_ONCE = 4_000_000  # of pairs, in Kendall's tau: tens of MiB


def coefficient(name: Coefficient, x_BN: Floats, y_BN: Floats, strata_N: Ints) -> Floats:
    """(B,): one coefficient for each row, -1 to 1; nan where a row does not vary within strata.

    Args:
        name: which.
        x_BN: values; one row, or as many as y's.
        y_BN: the other values.
        strata_N: 0, 1, ... for each point; all 0 for a coefficient over all points.
    """
    if name == "kendall":
        return _kendall(x_BN, y_BN, strata_N)
    if name == "spearman":
        x_BN, y_BN = _ranks(x_BN, strata_N), _ranks(y_BN, strata_N)
    return _pearson(_centred(x_BN, strata_N), _centred(y_BN, strata_N))


def _pearson(x_BN: Floats, y_BN: Floats) -> Floats:
    x_BN, y_BN = np.broadcast_arrays(x_BN, y_BN)
    product_B = np.einsum("bn,bn->b", x_BN, y_BN)
    scale_B = np.sqrt(np.einsum("bn,bn->b", x_BN, x_BN)) * np.sqrt(np.einsum("bn,bn->b", y_BN, y_BN))
    return _ratio(product_B, scale_B)


def _kendall(x_BN: Floats, y_BN: Floats, strata_N: Ints) -> Floats:
    first_P, second_P = np.triu_indices(len(strata_N), k=1)
    same_P = strata_N[first_P] == strata_N[second_P]
    first_P, second_P = first_P[same_P], second_P[same_P]
    num_rows, size = max(len(x_BN), len(y_BN)), max(1, _CELLS_AT_ONCE // max(1, len(first_P)))
    found = []
    for start in range(0, num_rows, size):
        x_signs, y_signs = (
            np.sign(v_BN[:, first_P] - v_BN[:, second_P])
            for v_BN in (_rows(x_BN, start, size), _rows(y_BN, start, size))
        )
        found.append(_pearson(x_signs, y_signs))
    return np.concatenate(found)


def _rows(values_BN: Floats, start: int, size: int) -> Floats:
    return values_BN if len(values_BN) == 1 else values_BN[start : start + size]


def _ranks(values_BN: Floats, strata_N: Ints) -> Floats:
    """Ranks within each stratum; equal values share the mean of their ranks."""
    from scipy.stats import rankdata  # a second to import

    ranks_BN = np.empty_like(values_BN, dtype=np.float64)
    for stratum in np.unique(strata_N):
        inside = strata_N == stratum
        ranks_BN[:, inside] = rankdata(values_BN[:, inside], axis=1)
    return ranks_BN


def _centred(values_BN: Floats, strata_N: Ints) -> Floats:
    centred_BN = np.array(values_BN, dtype=np.float64)
    for stratum in np.unique(strata_N):
        inside = strata_N == stratum
        centred_BN[:, inside] -= centred_BN[:, inside].mean(axis=1, keepdims=True)
    centred_BN[np.abs(centred_BN) < 1e-12 * np.abs(values_BN).max(initial=0.0)] = 0.0  # rounding is no variation
    return centred_BN


def _ratio(product_B: Floats, scale_B: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(np.where(scale_B > 0, product_B / scale_B, np.nan), -1.0, 1.0)
