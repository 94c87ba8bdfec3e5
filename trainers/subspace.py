"""One subspace of the embedding space for every similarity, and the spectrum of a Fisher information inside it.

An encoder's embeddings have directions in which they hardly vary (and exact null ones, as behind a LayerNorm). A
condition number over all of H measures where these are cut off, not the loss: on MiniLM kappa is about 1 / cut-off. So
the subspace is fixed from the embeddings alone, before any similarity is looked at, and no similarity cuts anything.

Shapes: N embeddings, H embedding size, R dimension of the subspace.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Doubling steps from a handful of directions, where the smallest eigenvalue is well estimated, up to 64, where it is
# still above the rounding of float32 embeddings in a model of 384 dimensions.
RANKS = (8, 16, 32, 64)
# F + RIDGE * tr(F) / R * I keeps log10 kappa finite where F is singular. Small enough to change nothing where it is
# not: `ridge_effect` says how far the value would move with a tenth of it.
RIDGE = 1e-8


@dataclass(frozen=True, kw_only=True)
class Subspace:
    """Orthonormal columns, by falling variance: the first r columns are the subspace of dimension r."""

    basis_HR: Tensor
    explained_R: Tensor  # share of the embeddings' variance in the first 1, 2, ... columns
    ranks: tuple[int, ...]  # the grid of dimensions


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """What the eigenvalues of a Fisher information say. `effective_rank` is exp of the entropy of their shares."""

    log10_kappa: float
    lambda_max: float
    lambda_min: float
    trace: float
    effective_rank: float
    ridge_effect: float  # how much log10 kappa would grow with a tenth of the ridge


def shared_subspace(vectors_NH: Tensor, ranks: tuple[int, ...] = RANKS) -> Subspace:
    """The principal directions of pooled, centred raw embeddings (queries and documents together).

    Of `ranks`, those are kept in which the embeddings vary above the rounding of float32; the number of such
    directions, where none is left.

    Raises:
        ValueError: the embeddings do not vary at all.
    """
    centred_NH = vectors_NH.double() - vectors_NH.double().mean(dim=0)
    _, singular, directions_RH = torch.linalg.svd(centred_NH, full_matrices=False)
    # The rounding of embeddings grows with their length, not with their deviation from the mean.
    largest = torch.linalg.matrix_norm(vectors_NH.double(), ord=2)
    rounding = largest * max(vectors_NH.shape) ** 0.5 * torch.finfo(torch.float32).eps
    dimension = int((singular > rounding).sum())
    if not dimension:
        raise ValueError(f"{len(vectors_NH)} embeddings are all the same: they span no subspace")
    kept = tuple(rank for rank in ranks if rank <= dimension) or (dimension,)
    variance = singular.square()
    explained = variance.cumsum(0) / variance.sum()
    return Subspace(basis_HR=directions_RH[: max(kept)].T.contiguous(), explained_R=explained[: max(kept)], ranks=kept)


def spectrum(fisher_RR: Tensor, rank: int, ridge: float = RIDGE) -> Spectrum:
    """The spectrum of a projected Fisher information's leading `rank` x `rank` block.

    kappa = (lambda_max + a) / (lambda_min + a) with a = ridge * trace / rank, so it depends on neither the unit of
    the embeddings nor the scale of the logits, but for the probabilities that both decide.

    Raises:
        ValueError: the Fisher information is zero (every query is saturated), or not finite.
    """
    values = torch.linalg.eigvalsh(fisher_RR[:rank, :rank]).clamp(min=0) if fisher_RR.isfinite().all() else None
    if values is None or values.sum() <= 0:
        raise ValueError(f"a Fisher information with trace {fisher_RR.trace().item():g} has no condition number")
    trace = values.sum()
    shares = values[values > 0] / trace
    return Spectrum(
        log10_kappa=_log10_kappa(values, ridge),
        lambda_max=values[-1].item(),
        lambda_min=values[0].item(),
        trace=trace.item(),
        effective_rank=(-(shares * shares.log()).sum()).exp().item(),
        ridge_effect=_log10_kappa(values, ridge / 10) - _log10_kappa(values, ridge),
    )


def _log10_kappa(values: Tensor, ridge: float) -> float:
    added = ridge * values.mean()
    return ((values[-1] + added) / (values[0] + added)).log10().item()
