"""Right or wrong, paired or against a coin: exact McNemar, exact binomial, both also with families as clusters; regret.

Cells of one family share its encoder and its training data, so that ten cells of two families are nearer to two
observations than to ten. The clustered tests flip the sign of a whole family at a time (`sign_flips`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.statistics.estimate import LEVEL, Floats
from results.statistics.sign_flips import clustered_sign_flip_p

Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A sign test on those units where the two sides differ.

    Attributes:
        num_for: units that speak for the first side: it is right where the other is wrong, or a hit against a coin.
        num_against: units that speak for the other.
        p: exact, two-sided, with units as independent; None where no unit differs.
        clustered_p: with clusters as independent; None without clusters.
        num_clusters: that have a unit that differs.
        fewest: units below which no outcome can reach the level, and for `clustered_p` clusters.
        reason: why p is absent, or why no outcome could have reached the level.
    """

    num_for: int
    num_against: int
    p: float | None
    clustered_p: float | None
    num_clusters: int | None
    fewest: int
    reason: str | None = None


def mcnemar(first_N: Bools, second_N: Bools, *, clusters: Sequence[str] | None = None, level: float = LEVEL) -> Decided:
    """Whether `first` is right more often than `second` on the same units (McNemar, Psychometrika 12, 1947; exact).

    Args:
        first_N: right or wrong, one for each unit: a cell's call, or a question's exact match.
        second_N: of the other side, on the same units.
        clusters: each unit's family.
        level: 1 minus the error, for `fewest`.
    """
    return _sign_test(first_N.astype(float) - second_N.astype(float), clusters, level, "no unit where the two differ")


def against_coin(hits_N: Bools, *, clusters: Sequence[str] | None = None, level: float = LEVEL) -> Decided:
    """Whether hits and misses could come from a fair coin: the exact binomial test of 1/2."""
    return _sign_test(np.where(hits_N, 1.0, -1.0), clusters, level, "no decided unit")


def binomial_p(num_for: int, num_against: int) -> float:
    """Two-sided exact p that `num_for` of the sum come from a fair coin."""
    num = num_for + num_against
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(num_for, num_against), num, 0.5)))


def exact_interval(num_right: int, num: int, *, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a probability of which `num_right` of `num` units came true (Clopper and Pearson, 1934).

    It holds the probability at least as often as `level` says, whatever it is; of no unit it is all of 0 to 1.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(num_right, num - num_right + 1, tail)) if num_right else 0.0
    high = float(betaincinv(num_right + 1, num - num_right, 1 - tail)) if num_right < num else 1.0
    return low, high


def fewest_for_level(*, level: float = LEVEL, num_tests: int = 1) -> int:
    """The smallest number of units (or clusters) that all agree whose exact p, times `num_tests`, reaches 1 - level.

    `num_tests` is the size of the table that Holm goes over.
    """
    num = 1
    while 2 * 0.5**num * num_tests > 1 - level + 1e-12:
        num += 1
    return num


def regret(called_N: Floats, other_N: Floats) -> Floats:
    """What following the call lost in each cell: the other side's score minus the called one's, 0 where it won.

    Args:
        called_N: scores (0 to 1) of the similarity that was called.
        other_N: of the one that was not.
    """
    return np.asarray(np.maximum(other_N - called_N, 0.0), dtype=np.float64)


def _sign_test(signs_N: Floats, clusters: Sequence[str] | None, level: float, nothing: str) -> Decided:
    differs = signs_N != 0
    num_for, num_against = int((signs_N > 0).sum()), int((signs_N < 0).sum())
    fewest = fewest_for_level(level=level)
    names = None if clusters is None else [name for name, d in zip(clusters, differs, strict=True) if d]
    num_clusters = None if names is None else len(set(names))
    if not differs.any():
        return Decided(
            num_for=0, num_against=0, p=None, clustered_p=None, num_clusters=num_clusters, fewest=fewest, reason=nothing
        )
    return Decided(
        num_for=num_for,
        num_against=num_against,
        p=binomial_p(num_for, num_against),
        clustered_p=None if names is None else clustered_sign_flip_p(signs_N[differs], names),
        num_clusters=num_clusters,
        fewest=fewest,
        reason=_too_few(num_for + num_against, num_clusters, fewest),
    )


def _too_few(num: int, num_clusters: int | None, fewest: int) -> str | None:
    if num < fewest:
        return f"{num} units: below {fewest} no outcome is significant"
    if num_clusters is not None and num_clusters < fewest:
        return f"{num_clusters} families: below {fewest} no outcome is significant with families as clusters"
    return None
