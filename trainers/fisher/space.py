"""Effective rank of the space that each similarity sees, from embeddings alone: how many directions texts spread over.

A similarity sees its normalised side as unit vectors, and the other as it is: qnorm (q / |q|, d), dnorm (q, d / |d|).
Its effective rank is the geometric mean over both sides of exp of the entropy of the shares of variance (Roy and
Vetterli, EUSIPCO 2007; RankMe, arXiv 2210.02885, uses it to rank encoders), of centred vectors in the whole space.

Shapes: G groups of whole pools, N vectors, H embedding size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainers.fisher.information import SAME_NORMS, Point, Pool, norms
from trainers.fisher.jackknife import Estimate, delete_group
from trainers.fisher.sizes import RANK_GROUPS
from trainers.fisher.spectrum import effective_rank

MIN_POOLS = 8  # without as many there is no interval, as for the Fisher information


@dataclass(frozen=True, kw_only=True)
class ComparedRanks:
    """log10 of the effective rank that each similarity sees, and first - second on the same pools."""

    first: Estimate
    second: Estimate
    difference: Estimate


def compare_effective_ranks(pools: Sequence[Pool], points: Mapping[str, Point]) -> ComparedRanks | None:
    """The two similarities of `points`, with a jackknife that leaves out the same pools in both.

    None where some vectors do not vary at all. There are no bounds with fewer than MIN_POOLS pools.
    """
    one, other = (_with_groups_left_out(pools, point) for point in points.values())
    if one is None or other is None:
        return None
    # Where all norms are the same both see the same space, and what is left is rounding.
    difference = [a - b if abs(a - b) > SAME_NORMS else 0.0 for a, b in zip(one, other, strict=True)]
    estimates = (_estimate(values, len(pools)) for values in (one, other, difference))
    return ComparedRanks(**dict(zip(("first", "second", "difference"), estimates, strict=True)))


def _estimate(values: Sequence[float], num_pools: int) -> Estimate:
    found = delete_group(values[0], values[1:])
    return found if num_pools >= MIN_POOLS else Estimate(value=found.value)


def _with_groups_left_out(pools: Sequence[Pool], point: Point) -> list[float] | None:
    """log10 of the effective rank of all pools, then of all but each group of them."""
    groups = [list(group) for group in np.array_split(np.arange(len(pools)), min(RANK_GROUPS, len(pools)))]
    sides = (
        [_seen(pool.query_QH, point.gamma_q) for pool in pools],
        [_seen(pool.document_DH, point.gamma_d) for pool in pools],
    )
    of_sides = [_log10_ranks([torch.cat([side[i] for i in group]) for group in groups]) for side in sides]
    if None in (value for side in of_sides for value in side):
        return None
    return [float(np.mean(both)) for both in zip(*of_sides, strict=True)]


def _seen(vectors_NH: Tensor, gamma: float) -> Tensor:
    seen_NH: Tensor = vectors_NH.double() / norms(vectors_NH) ** gamma
    return seen_NH


def _log10_ranks(groups: Sequence[Tensor]) -> list[float | None]:
    """Of all groups together, then (where there are several) of all but each."""
    counts_G = torch.tensor([len(group_NH) for group_NH in groups], dtype=torch.float64)
    # Less one vector for all: moments about the origin would lose digits where the mean is far from it.
    middle_H = torch.cat(list(groups)).mean(dim=0)
    sums_GH = torch.stack([(group_NH - middle_H).sum(dim=0) for group_NH in groups])
    squares_GHH = [(group_NH - middle_H).T @ (group_NH - middle_H) for group_NH in groups]
    total_HH = torch.stack(squares_GHH).sum(dim=0)
    found = [_log10_rank(counts_G.sum(), sums_GH.sum(dim=0), total_HH)]
    if len(groups) > 1:
        for number, own_HH in enumerate(squares_GHH):
            left = counts_G.sum() - counts_G[number], sums_GH.sum(dim=0) - sums_GH[number], total_HH - own_HH
            found.append(_log10_rank(*left))
    return found


def _log10_rank(count: Tensor, sum_H: Tensor, squares_HH: Tensor) -> float | None:
    mean_H = sum_H / count
    variance_H = torch.linalg.eigvalsh(squares_HH / count - torch.outer(mean_H, mean_H)).clamp(min=0)
    rank = effective_rank(variance_H)
    return None if rank is None else float(np.log10(rank))
