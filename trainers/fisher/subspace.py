"""One subspace of the embedding space for every similarity, fixed before any of them is looked at.

An encoder's embeddings have directions in which they hardly vary (and exact null ones, as behind a LayerNorm). A
condition number over all of H measures where these are cut off, not the loss: on MiniLM kappa is about 1 / cut-off. So
the subspace comes from embeddings alone (of pairs that stand in no pool), and no similarity cuts anything off.

Shapes: N embeddings, H embedding size, R dimension of the subspace.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.fisher.sizes import RANKS


@dataclass(frozen=True, kw_only=True)
class Subspace:
    """Orthonormal columns, by falling variance: the first r columns are the subspace of dimension r."""

    basis_HR: Tensor
    explained_R: Tensor  # share of the embeddings' variance in the first 1, 2, ... columns
    ranks: tuple[int, ...]  # the grid of dimensions


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
    largest = torch.linalg.vector_norm(vectors_NH.double(), dim=1).max()
    rounding = largest * max(vectors_NH.shape) ** 0.5 * torch.finfo(torch.float32).eps
    dimension = int((singular > rounding).sum())
    if not dimension:
        raise ValueError(f"{len(vectors_NH)} embeddings are all the same: they span no subspace")
    kept = tuple(rank for rank in ranks if rank <= dimension) or (dimension,)
    variance = singular.square()
    explained = variance.cumsum(0) / variance.sum()
    return Subspace(basis_HR=directions_RH[: max(kept)].T.contiguous(), explained_R=explained[: max(kept)], ranks=kept)
