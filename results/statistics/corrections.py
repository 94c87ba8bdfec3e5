"""p values adjusted for the number of tests in a table: Holm, Benjamini-Hochberg.

Two formulas of a line each, written here since importing statsmodels takes longer than `tables` may; tests hold them
against it.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from results.statistics.estimate import Floats

Correction = Literal["holm", "benjamini-hochberg"]


def adjust(p_values: Sequence[float | None], correction: Correction = "holm") -> list[float | None]:
    """The adjusted p of each test of one table, to be held against the same level as a single one; None stays None.

    - 'holm': error of any false claim in the table, under any dependence (Holm, Scandinavian Journal of Statistics 6,
      1979).
    - 'benjamini-hochberg': expected share of false ones among claims, tests independent or positively dependent
      (JRSS B 57, 1995).

    A test that could not be made is not counted.

    Raises:
        ValueError: a p outside 0 to 1.
    """
    known = np.array([p for p in p_values if p is not None], dtype=float)
    outside = known[~((known >= 0) & (known <= 1))]
    if outside.size:
        raise ValueError(f"p value {outside[0]}: it lies between 0 and 1")
    order = np.argsort(known, kind="stable")
    adjusted = np.empty_like(known)
    adjusted[order] = _holm(known[order]) if correction == "holm" else _benjamini_hochberg(known[order])
    left = iter(adjusted.tolist())
    return [None if p is None else next(left) for p in p_values]


def _holm(rising: Floats) -> Floats:
    factors = np.arange(len(rising), 0, -1)
    return np.minimum(np.maximum.accumulate(rising * factors), 1.0)


def _benjamini_hochberg(rising: Floats) -> Floats:
    num = len(rising)
    factors = num / np.arange(1, num + 1)
    return np.minimum(np.minimum.accumulate((rising * factors)[::-1])[::-1], 1.0)
