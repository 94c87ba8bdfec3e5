"""The crossed two-level bootstrap: seeds and queries (and data sets) drawn with replacement, as matrix products.

A draw gives each seed and each query the number of times that it was drawn, over their number. All columns, and all
cells measured on the same queries, share a draw, so that paired differences stay paired. With the weights of all draws
as the rows of matrices, the means of B draws over a dense array of scores are two products:

    mean_BC = sum over s of seed_BS * (query_BQ @ values_Q(SC))

It is the check on the two-way interval, not the interval itself: it draws from the few seeds there are, whose spread
is too small by (S - 1) / S, and has no t quantile for them (Owen, The pigeonhole bootstrap, Annals of Applied
Statistics 1, 2007). With 3 dominant seeds its 95 % are the span from the smallest to the largest of the three, which
holds the truth 3 times in 4.
Drawn anew within drawn data sets, queries count twice: for new data sets it is wide where data sets hardly differ.
"""

import zlib
from dataclasses import dataclass

import numpy as np

from results.statistics.estimate import LEVEL, Floats, Target
from results.statistics.groups import GroupScores

NUM_DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Draws:
    """What identifies a set of draws: equal ones give equal weights for equal names and sizes."""

    num_draws: int = NUM_DRAWS
    seed: int = 0


def resampling_weights(draws: Draws, what: str, size: int) -> Floats:
    """(B, size): how often each of `size` items is in a draw with replacement, over `size`; rows sum to 1.

    Args:
        draws: their number and seed.
        what: the name of what is drawn from; another name gives independent draws.
        size: the number of items.
    """
    generator = np.random.default_rng([draws.seed, zlib.crc32(what.encode()), size])
    chosen_BN = generator.integers(size, size=(draws.num_draws, size), dtype=np.int32)
    chosen_BN += np.arange(draws.num_draws, dtype=np.int32)[:, None] * np.int32(size)
    counts = np.bincount(chosen_BN.ravel(), minlength=draws.num_draws * size)
    return counts.reshape(draws.num_draws, size) / size


def crossed_means(values_CSQ: Floats, seed_weights_BS: Floats, query_weights_BQ: Floats) -> Floats:
    """(B, C): the mean over seeds and queries in each draw, for each column."""
    num_columns, num_seeds, num_queries = values_CSQ.shape
    by_seed_RB = values_CSQ.reshape(-1, num_queries) @ query_weights_BQ.T  # R: columns and seeds
    return np.einsum("csb,bs->bc", by_seed_RB.reshape(num_columns, num_seeds, -1), seed_weights_BS)


def bootstrap_group_means(group: GroupScores, draws: Draws, *, target: Target = "these data sets") -> Floats:
    """(B, C): the group mean of each column in each draw; gains and ratios are differences and ratios of its columns.

    Fast for many cells at once: those that have equally many seeds stand side by side as columns, so that the weights
    of a data set are made once.

    Args:
        group: scores of one cell, or of several as columns.
        draws: their number and seed.
        target: 'new data sets' draws data sets, too.
    """
    means_JBC = np.stack([_data_set_means(group, name, draws) for name in group.members])
    if target == "these data sets":
        return np.asarray(means_JBC.mean(axis=0))
    data_set_weights_BJ = resampling_weights(draws, f"data sets of {group.name}", len(means_JBC))
    return np.einsum("bj,jbc->bc", data_set_weights_BJ, means_JBC)


def percentile_interval(values_B: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The central `level` of the draws; along the first axis."""
    low, high = np.quantile(values_B, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return float(low), float(high)


def _data_set_means(group: GroupScores, name: str, draws: Draws) -> Floats:
    """(B, C): those of one data set, the unweighted mean over its parts."""
    means = []
    for part in group.members[name]:
        _, num_seeds, num_queries = part.values_CSQ.shape
        seed_weights_BS = resampling_weights(draws, f"seeds of {group.trainings}", num_seeds)
        query_weights_BQ = resampling_weights(draws, f"queries of {part.name}", num_queries)
        means.append(crossed_means(part.values_CSQ, seed_weights_BS, query_weights_BQ))
    return np.asarray(np.mean(means, axis=0))
