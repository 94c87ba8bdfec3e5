"""Fisher information of similarities on the same pools, and what is known of their condition numbers.

Shapes: P pools, R dimension of the largest subspace; Q and D as in `trainers.fisher.information`. A block's matrix has
`num_parameters` rows: R in the embedding blocks, 2 in `gamma`, R (R + 1) / 2 in `head`.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.fisher.gamma import LogMeans, gamma_fisher
from trainers.fisher.head import head_fisher, head_pool, num_coordinates
from trainers.fisher.information import (
    Point,
    Pool,
    document_fisher,
    log_probabilities,
    observed_labels,
    query_fisher,
)
from trainers.fisher.jackknife import Estimate, delete_group
from trainers.fisher.sizes import HEAD_MAX_RANK
from trainers.fisher.spectrum import RIDGE, Spectrum, eigenvalues, log10_kappa_of, spectrum
from trainers.training.diagnostics import softmax_numbers, softmax_statistics

BLOCKS = ("embedding", "embedding_query", "embedding_document")
GAMMA, HEAD = "gamma", "head"
EMPIRICAL = "empirical_"  # before a block's name: the labels are the observed ones
# Outside of these no interval is given. In simulations from real embeddings its coverage held with 8 pools, and with
# 0.84 of the queries saturated; with 0.98 it fell to 0.79, since a few queries then make up all of F.
MIN_POOLS = 8
MAX_SATURATED_SHARE = 0.85
MAX_RIDGE_EFFECT = 0.01  # of log10 kappa: above it, the ridge and not the data decides the value
# The largest subspace in which intervals of a block held the truth as often as they promise, 90 %: by simulation at the
# shipped size from real embeddings (`make bench BENCH=fisher_coverage`, figures in docs/fisher.md). A block that is not
# listed, or a larger subspace, has no interval, hence no call but 'undecided'. `gamma` lies in no subspace.
COVERED_RANKS = {"embedding": 64, "embedding_query": 64, "embedding_document": 64, "gamma": 2, "head": 32}
INTERVAL_GOAL = 0.1  # half an interval of a difference of log10 kappa: a factor of 1.26 in kappa


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One similarity on every pool. `fisher_PRR` holds, by block, the mean over each pool's queries."""

    fisher_PRR: Mapping[str, Tensor]
    logit_std: float  # this and the next two: see `diagnostics.SoftmaxNumbers`
    perplexity: float
    saturated_share: float  # such queries hardly add to a Fisher information
    loss: float  # InfoNCE in nats, mean over queries

    def first(self, num_pools: int) -> "Measured":
        """What the first pools alone would have given; the numbers of the softmax stay those of all."""
        return replace(self, fisher_PRR={block: found[:num_pools] for block, found in self.fisher_PRR.items()})


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two similarities in one block and one subspace; an estimate is absent where a Fisher information is zero.

    `first` and `second` are of log10 kappa, and so is `difference`, first - second on the same pools.
    """

    spectra: tuple[Spectrum, Spectrum]
    first: Estimate | None
    second: Estimate | None
    difference: Estimate | None


def measure(
    pools: Sequence[Pool],
    point: Point,
    basis_HR: Tensor,
    *,
    means: LogMeans | None = None,
    head_pools: int = 0,
    labels: Collection[str] = ("",),
) -> Measured:
    """All blocks of one similarity: `embedding_query`, `embedding_document`, their sum `embedding`, and what is asked.

    Args:
        pools: all of one size.
        point: the similarity.
        basis_HR: of the shared subspace.
        means: of the norms, for block `gamma`; without them there is none.
        head_pools: how many of the pools block `head` takes; there is none of 0.
        labels: '' for the Fisher information, EMPIRICAL for the empirical one: what stands before the blocks' names.
    """
    found: dict[str, list[Tensor]] = {}
    softmax, losses = [], []
    for number, pool in enumerate(pools):
        log_p_QD = log_probabilities(pool, point)
        for label in labels:
            with_head = number < head_pools
            for block, total_RR in _blocks(pool, log_p_QD.exp(), point, basis_HR, means, label, with_head):
                found.setdefault(label + block, []).append(total_RR / len(log_p_QD))
        softmax.append(softmax_statistics(log_p_QD, point.scale))
        losses.append(-log_p_QD.diagonal())
    seen = softmax_numbers(torch.stack(softmax).mean(dim=0).tolist())  # pools are of one size
    return Measured(
        fisher_PRR={block: torch.stack(of_pools) for block, of_pools in found.items()},
        logit_std=seen.logit_std,
        perplexity=seen.perplexity,
        saturated_share=seen.saturated_share,
        loss=torch.cat(losses).mean().item(),
    )


def _blocks(
    pool: Pool, p_QD: Tensor, point: Point, basis_HR: Tensor, means: LogMeans | None, label: str, with_head: bool
) -> Iterator[tuple[str, Tensor]]:
    """Every block of one pool, summed over its queries."""
    label_QD = observed_labels(pool) if label == EMPIRICAL else p_QD
    query_RR = query_fisher(pool, p_QD, point, basis_HR, label_QD=label_QD)
    document_RR = document_fisher(pool, p_QD, point, basis_HR, label_QD=label_QD)
    yield from zip(BLOCKS, (query_RR + document_RR, query_RR, document_RR), strict=True)
    if means is not None:
        yield GAMMA, gamma_fisher(pool, p_QD, point, means, label_QD=label_QD)
    if with_head:
        basis_HR = basis_HR[:, :HEAD_MAX_RANK]
        yield HEAD, head_fisher(head_pool(pool, point, observed=label == EMPIRICAL), basis_HR)


def ranks_of(block: str, ranks: Sequence[int]) -> tuple[int | None, ...]:
    """Of the grid of dimensions, those in which a block has a condition number; None where it lies in no subspace."""
    block = block.removeprefix(EMPIRICAL)
    if block == GAMMA:
        return (None,)
    # The subspace has at least one dimension, whatever the grid.
    return tuple(rank for rank in ranks if rank <= HEAD_MAX_RANK) if block == HEAD else tuple(ranks)


def num_parameters(block: str, rank: int | None) -> int:
    """Rows of a block's matrix in the subspace of dimension `rank`."""
    if rank is None:
        return 2
    return num_coordinates(rank) if block.removeprefix(EMPIRICAL) == HEAD else rank


def compare(first: Measured, second: Measured, block: str, rank: int | None) -> Compared:
    """Condition numbers of both similarities, by a jackknife that leaves out the same pools in both."""
    return compare_at_ridges(first, second, block, rank, (RIDGE,))[RIDGE]


def compare_at_ridges(
    first: Measured, second: Measured, block: str, rank: int | None, ridges: Sequence[float]
) -> dict[float, Compared]:
    """`compare` under each ridge, all from the same eigenvalues. `ridge_effect` is always that of RIDGE."""
    size = num_parameters(block, rank)
    spectra = (_spectrum(first, block, size), _spectrum(second, block, size))
    values = torch.stack([_whole_and_without(m.fisher_PRR[block], size) for m in (first, second)])
    enough = len(first.fisher_PRR[block]) >= MIN_POOLS and is_covered(block, rank)
    trusted = enough and all(map(_is_measured, (first, second), spectra))

    def estimate(kappas: Tensor) -> Estimate | None:
        whole, *without = kappas.tolist()
        if not math.isfinite(whole):
            return None
        found = delete_group(whole, without)
        return found if trusted else Estimate(value=found.value)

    return {
        ridge: Compared(spectra=spectra, first=estimate(one), second=estimate(other), difference=estimate(one - other))
        for ridge in ridges
        for one, other in [log10_kappa_of(values, ridge)]
    }


def is_covered(block: str, rank: int | None) -> bool:
    """Whether intervals of a block in a subspace covered as often as they promise where that was simulated."""
    covered = COVERED_RANKS.get(block)
    return covered is not None and (rank is None or rank <= covered)


def is_narrow(found: Compared) -> bool:
    """Whether a difference is known as closely as INTERVAL_GOAL."""
    difference = found.difference
    if difference is None or difference.low is None or difference.high is None:
        return False
    return (difference.high - difference.low) / 2 <= INTERVAL_GOAL


def growing(num_pools: int) -> tuple[int, ...]:
    """An eighth, a quarter, a half and all of the pools, each at least one and none twice: the convergence curve."""
    return tuple(dict.fromkeys(max(1, num_pools // part) for part in (8, 4, 2, 1)))


def _spectrum(measured: Measured, block: str, size: int) -> Spectrum:
    return spectrum(measured.fisher_PRR[block].mean(dim=0), size)


def _whole_and_without(fisher_PRR: Tensor, size: int) -> Tensor:
    """Eigenvalues of all pools together, then of all but each one [1 + P, size]. Pools are of one size."""
    total_RR = fisher_PRR.sum(dim=0)
    return eigenvalues(torch.cat([total_RR.unsqueeze(0), total_RR - fisher_PRR]), size)


def _is_measured(measured: Measured, found: Spectrum) -> bool:
    """Whether data, and enough of it, decides this similarity's kappa."""
    if measured.saturated_share > MAX_SATURATED_SHARE or found.ridge_effect is None:
        return False
    return found.ridge_effect < MAX_RIDGE_EFFECT
