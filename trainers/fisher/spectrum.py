"""The spectrum of a Fisher information inside the shared subspace, and its condition number.

Shapes: N matrices, R dimension of the largest subspace; the leading r x r block belongs to the subspace of dimension r.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# kappa is that of F + RIDGE * tr(F) / r * I, finite where F is singular. Far below what is measured (kappa of 10 to
# 10^4 on MiniLM, where it moves log10 kappa by less than 1e-6), far above the rounding of float64 (1e-16).
RIDGE = 1e-8
RIDGES = (1e-12, 1e-10, RIDGE, 1e-6, 1e-4)  # at which the sensitivity to it is shown


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """What the eigenvalues of one Fisher information say; kappa is None where the Fisher information is zero."""

    log10_kappa: float | None
    lambda_max: float
    lambda_min: float
    trace: float
    effective_rank: float | None  # exp of the entropy of the eigenvalues' shares of the trace
    ridge_effect: float | None  # how much log10 kappa would grow with a tenth of the ridge: 1 where F is singular
    eigenvalues: tuple[float, ...] = ()  # falling


def log10_kappa(fisher_NRR: Tensor, rank: int, ridge: float = RIDGE) -> Tensor:
    """log10 of (lambda_max + a) / (lambda_min + a) in the subspace of dimension `rank`, a = ridge * trace / rank [N].

    It depends on neither the unit of F nor the order of candidates; NaN where F is zero.
    """
    return log10_kappa_of(eigenvalues(fisher_NRR, rank), ridge)


def spectrum(fisher_RR: Tensor, rank: int, ridge: float = RIDGE) -> Spectrum:
    """The spectrum of one Fisher information in the subspace of dimension `rank`."""
    values_r = eigenvalues(fisher_RR, rank)
    trace = values_r.sum().item()
    is_zero = trace == 0
    here, with_a_tenth = log10_kappa_of(values_r, ridge).item(), log10_kappa_of(values_r, ridge / 10).item()
    return Spectrum(
        log10_kappa=None if is_zero else here,
        lambda_max=values_r[-1].item(),
        lambda_min=values_r[0].item(),
        trace=trace,
        effective_rank=effective_rank(values_r),
        ridge_effect=None if is_zero else with_a_tenth - here,
        eigenvalues=tuple(values_r.flip(0).tolist()),
    )


def effective_rank(values_r: Tensor) -> float | None:
    """Of non-negative eigenvalues: exp of the entropy (nats) of their shares of the trace; None where all are zero.

    Roy and Vetterli, 'The effective rank' (EUSIPCO 2007).
    """
    trace = values_r.sum()
    if trace == 0:
        return None
    shares = values_r[values_r > 0] / trace
    return (-(shares * shares.log()).sum()).exp().item()


def eigenvalues(fisher_NRR: Tensor, rank: int) -> Tensor:
    """Rising, of the leading block of `rank` rows [N, r]; none is negative."""
    # Sums of squares have no negative eigenvalue; rounding leaves some just below 0.
    values: Tensor = torch.linalg.eigvalsh(fisher_NRR[..., :rank, :rank])
    return values.clamp(min=0)


def log10_kappa_of(values_Nr: Tensor, ridge: float) -> Tensor:
    """`log10_kappa` from eigenvalues [N]."""
    added_N = ridge * values_Nr.mean(dim=-1)
    return ((values_Nr[..., -1] + added_N) / (values_Nr[..., 0] + added_N)).log10()
