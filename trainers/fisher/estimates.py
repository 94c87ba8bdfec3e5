"""Fisher information of similarities on the same pools, and what is known of their condition numbers.

Shapes: P pools, R dimension of the largest subspace; Q and D as in `trainers.fisher.information`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.fisher.information import Point, Pool, document_fisher, log_probabilities, query_fisher
from trainers.fisher.jackknife import Estimate, delete_group
from trainers.fisher.spectrum import Spectrum, log10_kappa, spectrum
from trainers.training.diagnostics import softmax_numbers, softmax_statistics

BLOCKS = ("embedding", "embedding_query", "embedding_document")
# Outside of these no interval is given. In simulations from real embeddings its coverage held with 8 pools, and with
# 0.84 of the queries saturated; with 0.98 it fell to 0.79, since a few queries then make up all of F.
MIN_POOLS = 8
MAX_SATURATED_SHARE = 0.85
MAX_RIDGE_EFFECT = 0.01  # of log10 kappa: above it, the ridge and not the data decides the value


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One similarity on every pool. `fisher_PRR` holds, by block, the mean over each pool's queries."""

    fisher_PRR: Mapping[str, Tensor]
    logit_std: float  # this and the next two: see `diagnostics.SoftmaxNumbers`
    perplexity: float
    saturated_share: float  # such queries hardly add to a Fisher information
    loss: float  # InfoNCE in nats, mean over queries


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two similarities in one block and one subspace; an estimate is absent where a Fisher information is zero.

    `first` and `second` are of log10 kappa, and so is `difference`, first - second on the same pools.
    """

    spectra: tuple[Spectrum, Spectrum]
    first: Estimate | None
    second: Estimate | None
    difference: Estimate | None


def measure(pools: Sequence[Pool], point: Point, basis_HR: Tensor) -> Measured:
    """All blocks of one similarity: `embedding_query`, `embedding_document`, and their sum `embedding`."""
    query, document, softmax, losses = [], [], [], []
    for pool in pools:
        log_p_QD = log_probabilities(pool, point)
        p_QD = log_p_QD.exp()
        query.append(query_fisher(pool, p_QD, point, basis_HR) / len(p_QD))
        document.append(document_fisher(pool, p_QD, point, basis_HR) / len(p_QD))
        softmax.append(softmax_statistics(log_p_QD, point.scale))
        losses.append(-log_p_QD.diagonal())
    seen = softmax_numbers(torch.stack(softmax).mean(dim=0).tolist())  # pools are of one size
    query_PRR, document_PRR = torch.stack(query), torch.stack(document)
    return Measured(
        fisher_PRR=dict(zip(BLOCKS, (query_PRR + document_PRR, query_PRR, document_PRR), strict=True)),
        logit_std=seen.logit_std,
        perplexity=seen.perplexity,
        saturated_share=seen.saturated_share,
        loss=torch.cat(losses).mean().item(),
    )


def compare(first: Measured, second: Measured, block: str, rank: int) -> Compared:
    """Condition numbers of both similarities, by a jackknife that leaves out the same pools in both."""
    spectra = (_spectrum(first, block, rank), _spectrum(second, block, rank))
    kappas = torch.stack([_whole_and_without(m.fisher_PRR[block], rank) for m in (first, second)])
    num_pools = len(first.fisher_PRR[block])
    trusted = num_pools >= MIN_POOLS and all(map(_is_measured, (first, second), spectra))

    def estimate(values: Tensor) -> Estimate | None:
        whole, *without = values.tolist()
        if not math.isfinite(whole):
            return None
        found = delete_group(whole, without)
        return found if trusted else Estimate(value=found.value)

    return Compared(
        spectra=spectra,
        first=estimate(kappas[0]),
        second=estimate(kappas[1]),
        difference=estimate(kappas[0] - kappas[1]),
    )


def _spectrum(measured: Measured, block: str, rank: int) -> Spectrum:
    return spectrum(measured.fisher_PRR[block].mean(dim=0), rank)


def _whole_and_without(fisher_PRR: Tensor, rank: int) -> Tensor:
    """log10 kappa of all pools together, then of all but each one [1 + P]. Pools are of one size."""
    total_RR = fisher_PRR.sum(dim=0)
    return log10_kappa(torch.cat([total_RR.unsqueeze(0), total_RR - fisher_PRR]), rank)


def _is_measured(measured: Measured, found: Spectrum) -> bool:
    """Whether data, and enough of it, decides this similarity's kappa."""
    if measured.saturated_share > MAX_SATURATED_SHARE or found.ridge_effect is None:
        return False
    return found.ridge_effect < MAX_RIDGE_EFFECT
