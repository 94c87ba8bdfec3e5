"""Spectra of symmetric positive semi-definite operators that are only multiplied with: stochastic Lanczos quadrature.

A start vector v of independent signs gives after M steps a tridiagonal matrix; its eigenvalues x_m (Ritz values) and
the squared first entries w_m of its eigenvectors are a Gauss quadrature, tr f(F) = N E_v[sum_m w_m f(x_m)] (Golub and
Meurant 2010; Ubaru, Chen and Saad 2017). Rounding repeats converged eigenvalues where vectors are not orthogonalised
again, which splits their weights and leaves the quadrature right.

Shapes: K start vectors, N parameters, M steps, X points of the density.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.fisher.jackknife import Estimate, delete_group

Product = Callable[[Tensor], Tensor]  # [K, N] to [K, N], the operator times each row
KEPT_BYTES = 1 << 30  # of Lanczos vectors that are kept to orthogonalise against
DENSITY_DECADES, POINTS_PER_DECADE = 8, 10
_WIDTH = 0.15  # of the density's kernel, in decades


@dataclass(frozen=True, kw_only=True)
class Quadrature:
    """Ritz values and weights of each start vector, float64 [K, M]; weights of one add up to 1."""

    value_KM: Tensor
    weight_KM: Tensor
    num_parameters: int


@dataclass(frozen=True, kw_only=True)
class LanczosSpectrum:
    """What is known of a spectrum whose matrix is never formed. There is no smallest eigenvalue in it, nor a kappa.

    Intervals say how far the start vectors leave a value open, not the queries. `lambda_max` is a lower bound that has
    converged long before the last step where eigenvalues fall off. `density` is the number of eigenvalues to a decade,
    at `log10_value`, as a share of all; what lies below is the (nearly) empty rest.
    """

    lambda_max: float
    trace: Estimate
    effective_rank: Estimate | None  # exp of the entropy of the eigenvalues' shares of the trace; None where F is 0
    log10_value_X: Tensor
    density_X: Tensor


def signs(num_vectors: int, num_parameters: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rademacher start vectors [K, N]."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 2, (num_vectors, num_parameters), generator=generator, dtype=torch.int8)
    return drawn.to(dtype) * 2 - 1


def quadrature(product: Product, start_KN: Tensor, num_steps: int) -> Quadrature:
    """Gauss quadratures of the operator's spectrum from `num_steps` products with each start vector.

    The same start vectors and products give the same bits.
    """
    alpha_KM, beta_KM = _tridiagonal(product, start_KN, min(num_steps, start_KN.shape[1]))
    matrix_KMM = torch.diag_embed(alpha_KM) + sum(
        torch.diag_embed(beta_KM[:, :-1], offset=offset) for offset in (-1, 1)
    )
    values_KM, vectors_KMM = torch.linalg.eigh(matrix_KMM)
    return Quadrature(
        value_KM=values_KM.clamp(min=0), weight_KM=vectors_KMM[:, 0].square(), num_parameters=start_KN.shape[1]
    )


def lanczos_spectrum(found: Quadrature, *, trace: float | None = None) -> LanczosSpectrum:
    """What quadratures say; `trace` where it is known exactly."""
    traces_K = found.num_parameters * (found.weight_KM * found.value_KM).sum(dim=1)
    estimated = delete_group(traces_K.mean().item(), _without_each(traces_K).tolist())
    largest = found.value_KM.max().item()
    points_X, density_X = _density(found, largest)
    return LanczosSpectrum(
        lambda_max=largest,
        trace=Estimate(value=trace) if trace is not None else estimated,
        effective_rank=_effective_rank(found, traces_K, trace) if largest > 0 else None,
        log10_value_X=points_X,
        density_X=density_X,
    )


def _tridiagonal(product: Product, start_KN: Tensor, num_steps: int) -> tuple[Tensor, Tensor]:
    """Diagonals and what stands beside them, float64 [K, M] each; zeros once a Krylov space is exhausted."""
    keeps_all = num_steps * start_KN.numel() * start_KN.element_size() <= KEPT_BYTES
    kept_KVN = start_KN.new_empty(len(start_KN), num_steps if keeps_all else 2, start_KN.shape[1])
    vector_KN = start_KN / torch.linalg.vector_norm(start_KN, dim=1, keepdim=True)
    alphas, betas = start_KN.new_zeros(2, len(start_KN), num_steps)
    for step in range(num_steps):
        image_KN = product(vector_KN)
        alphas[:, step] = (image_KN * vector_KN).sum(dim=1)
        kept_KVN[:, step if keeps_all else step % 2] = vector_KN
        image_KN = _orthogonal(image_KN, kept_KVN[:, : step + 1])
        beta_K = torch.linalg.vector_norm(image_KN, dim=1)
        least_K = 10 * torch.finfo(beta_K.dtype).eps * alphas.abs().amax(dim=1)
        betas[:, step] = torch.where(beta_K > least_K, beta_K, 0.0)
        beta_K1 = betas[:, step : step + 1]
        if not beta_K1.any():
            break
        vector_KN = torch.where(beta_K1 > 0, image_KN / torch.where(beta_K1 > 0, beta_K1, 1.0), 0.0)
    return alphas.double(), betas.double()


def _orthogonal(image_KN: Tensor, kept_KVN: Tensor) -> Tensor:
    """What stands orthogonal on all that is kept: by classical Gram-Schmidt, for which twice is enough (Parlett)."""
    for _ in range(2):
        along_K1V = image_KN.unsqueeze(1) @ kept_KVN.transpose(1, 2)
        image_KN = image_KN - (along_K1V @ kept_KVN).squeeze(1)
    return image_KN


def _effective_rank(found: Quadrature, traces_K: Tensor, trace: float | None) -> Estimate:
    """By the jackknife over start vectors, in both the trace (unless it is known) and the entropy."""
    log_value_KM = torch.where(found.value_KM > 0, found.value_KM, 1.0).log()
    sums_K = found.num_parameters * (found.weight_KM * found.value_KM * log_value_KM).sum(dim=1)

    def rank(of_log: Tensor, of_value: Tensor) -> Tensor:
        # -sum (x / T) log(x / T) = log T * (sum x / T) - sum x log x / T
        total = of_value if trace is None else torch.full_like(of_value, trace)
        return (total.log() * of_value / total - of_log / total).exp()

    whole = rank(sums_K.mean(), traces_K.mean()).item()
    return delete_group(whole, rank(_without_each(sums_K), _without_each(traces_K)).tolist())


def _without_each(values_K: Tensor) -> Tensor:
    """The mean of all but each one [K]; NaN for a single one."""
    return (values_K.sum() - values_K) / (len(values_K) - 1) if len(values_K) > 1 else values_K * math.nan


def _density(found: Quadrature, largest: float) -> tuple[Tensor, Tensor]:
    """Points of log10 of an eigenvalue, falling from the largest, and the density there (share of all to a decade)."""
    offsets_X = torch.arange(POINTS_PER_DECADE, -DENSITY_DECADES * POINTS_PER_DECADE - 1, -1, dtype=torch.float64)
    if largest == 0:
        return offsets_X[:0], offsets_X[:0]
    points_X = math.log10(largest) + offsets_X / POINTS_PER_DECADE
    is_seen = found.value_KM > 0
    log_V, weight_V = found.value_KM[is_seen].log10(), found.weight_KM[is_seen] / len(found.value_KM)
    kernel_XV = (-((points_X.unsqueeze(1) - log_V) / _WIDTH).square() / 2).exp() / (_WIDTH * math.sqrt(2 * math.pi))
    return points_X, kernel_XV @ weight_V
