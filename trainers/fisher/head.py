"""Fisher information of a linear map W on both embeddings, s(W q, W d), at W = identity: H^2 parameters.

With q~ = q / |q|^gamma_q, d~ = d / |d|^gamma_d, unit vectors u = q / |q|, w = d / |d| and z_ij = scale * q~_i.d~_j,

    G_ij = dz_ij / dW = scale * (d~_j q~_i^T + q~_i d~_j^T) - gamma_q z_ij u_i u_i^T - gamma_d z_ij w_j w_j^T,

and F = mean_i Cov_{j ~ p_i}(vec G_ij). All gradients are symmetric: rotations of the space change no score, so F has
an exact null space of at least H (H - 1) / 2 dimensions under every similarity. Inner products of gradients are those
of the vectors they are made of, so that neither G_ij nor F is formed:

- few pairs: the Gram matrix of the centred gradients, which has F's spectrum but for zeros;
- many: products F v, from which `trainers.fisher.lanczos` estimates the spectrum. The trace is exact in both.

The smallest eigenvalue of a rank-deficient F says nothing. kappa is that of a W that differs from the identity inside
the shared subspace alone, and by a symmetric matrix: W = I + B S B^T. S has r (r + 1) / 2 coordinates (orthonormal in
the Frobenius product), and F there is formed as it is.

Shapes: P pools, Q queries and D candidate slots of a pool, H embedding size, K directions, R columns of the basis,
S coordinates of a symmetric R x R matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.fisher.information import Point, Pool, log_probabilities, norms, observed_labels, weighted_sum
from trainers.fisher.jackknife import Estimate
from trainers.fisher.lanczos import LanczosSpectrum, Quadrature, lanczos_spectrum, quadrature, signs
from trainers.fisher.sizes import HEAD_STEPS, HEAD_VECTORS
from trainers.fisher.spectrum import effective_rank

# 4,096 gradients: a Gram matrix of 128 MiB. 512 queries x 64 candidates would be 8 GiB.
GRAM_GRADIENTS = 4096


@dataclass(frozen=True, kw_only=True)
class HeadPool:
    """What gradients of one pool are made of, float64: q~, d~, u, w, z, p and the distribution of the labels."""

    query_QH: Tensor
    document_DH: Tensor
    query_unit_QH: Tensor
    document_unit_DH: Tensor
    z_QD: Tensor
    p_QD: Tensor
    label_QD: Tensor
    point: Point


@dataclass(frozen=True, kw_only=True)
class HeadSpectrum:
    """`LanczosSpectrum`, with all eigenvalues (falling, zeros left out) where there are few enough gradients."""

    seen: LanczosSpectrum
    eigenvalues: Tensor | None


def head_pool(pool: Pool, point: Point, *, observed: bool = False) -> HeadPool:
    """A pool at a point; with `observed` labels for the empirical Fisher information."""
    query_norms, document_norms = norms(pool.query_QH), norms(pool.document_DH)
    query, document = pool.query_QH.double(), pool.document_DH.double()
    query_QH, document_DH = query / query_norms**point.gamma_q, document / document_norms**point.gamma_d
    p_QD = log_probabilities(pool, point).exp()
    return HeadPool(
        query_QH=query_QH,
        document_DH=document_DH,
        query_unit_QH=query / query_norms,
        document_unit_DH=document / document_norms,
        z_QD=point.scale * (query_QH @ document_DH.T),
        p_QD=p_QD,
        label_QD=observed_labels(pool) if observed else p_QD,
        point=point,
    )


def head_spectrum(pools: Sequence[HeadPool], *, seed: int = 0) -> HeadSpectrum:
    """The spectrum of block `head`. Start vectors are drawn by the seed."""
    seen = lanczos_spectrum(_quadrature(pools, seed), trace=head_trace(pools))
    if sum(pool.p_QD.numel() for pool in pools) > GRAM_GRADIENTS:
        return HeadSpectrum(seen=seen, eigenvalues=None)
    num_symmetric = num_coordinates(pools[0].query_QH.shape[1])
    values = torch.linalg.eigvalsh(head_gram(pools)).flip(0).clamp(min=0)[:num_symmetric]
    rank = effective_rank(values)
    known = replace(seen, lambda_max=values[0].item(), effective_rank=None if rank is None else Estimate(value=rank))
    return HeadSpectrum(seen=known, eigenvalues=values)


def _quadrature(pools: Sequence[HeadPool], seed: int) -> Quadrature:
    """Over symmetric maps alone, which is where F is not zero: half the numbers, and start vectors in no null space."""
    size = pools[0].query_QH.shape[1]
    first_S, second_S, norm_S = _coordinates(size)

    def product(coordinates_KS: Tensor) -> Tensor:
        direction_KHH = coordinates_KS.new_zeros(len(coordinates_KS), size, size)
        direction_KHH[:, first_S, second_S] = direction_KHH[:, second_S, first_S] = coordinates_KS / norm_S
        return head_product(pools, direction_KHH)[:, first_S, second_S] * norm_S

    found = quadrature(product, signs(HEAD_VECTORS, len(norm_S), seed), HEAD_STEPS)
    share = len(norm_S) / size**2  # the rest of W's parameters has an eigenvalue of 0
    return Quadrature(value_KM=found.value_KM, weight_KM=found.weight_KM * share, num_parameters=size**2)


def head_product(pools: Sequence[HeadPool], direction_KHH: Tensor) -> Tensor:
    """F times each direction, [K, H, H]: some matrix products of H x H for each pool, and no matrix of F's size."""
    symmetric_KHH = (direction_KHH + direction_KHH.transpose(1, 2)) / 2
    total_KHH = torch.zeros_like(symmetric_KHH)
    for pool in pools:
        total_KHH += _pool_product(pool, symmetric_KHH)
    return total_KHH / sum(len(pool.p_QD) for pool in pools)


def head_trace(pools: Sequence[HeadPool]) -> float:
    """The trace of F, exactly: from the inner products of each query's own gradients."""
    total = 0.0
    for pool in pools:
        for row in range(len(pool.p_QD)):
            alone = _rows(pool, slice(row, row + 1))
            gram_DD = _centred(_inner_products(alone, alone), alone, alone)[0, :, 0]
            total += (alone.label_QD[0] @ gram_DD.diagonal()).item()
    return total / sum(len(pool.p_QD) for pool in pools)


def head_gram(pools: Sequence[HeadPool]) -> Tensor:
    """The Gram matrix of all centred gradients, each times the root of its weight: F's eigenvalues, and zeros."""
    rows = []
    for one in pools:
        blocks = [_centred(_inner_products(one, other), one, other).flatten(2).flatten(0, 1) for other in pools]
        rows.append(torch.cat(blocks, dim=1))
    root = torch.cat([pool.label_QD.flatten() for pool in pools]).sqrt()
    return torch.cat(rows) * root.unsqueeze(1) * root / sum(len(pool.p_QD) for pool in pools)


def head_fisher(pool: HeadPool, basis_HR: Tensor) -> Tensor:
    """F of the coordinates S in the shared subspace, summed over the pool's queries, float64 [S, S].

    Pairs of columns are ordered by the later one, so that the leading r (r + 1) / 2 belong to the first r columns.
    """
    columns = [vectors @ basis_HR for vectors in (pool.query_QH, pool.document_DH)]
    units = [vectors @ basis_HR for vectors in (pool.query_unit_QH, pool.document_unit_DH)]
    first_S, second_S, norm_S = _coordinates(basis_HR.shape[1])
    point = pool.point

    def gradients(rows: slice) -> Tensor:
        query_N1S = columns[0][rows].unsqueeze(1)
        document_1DS = columns[1].unsqueeze(0)
        crossed = document_1DS[..., first_S] * query_N1S[..., second_S]
        crossed = crossed + document_1DS[..., second_S] * query_N1S[..., first_S]
        radial = point.gamma_q * (units[0][rows][:, first_S] * units[0][rows][:, second_S]).unsqueeze(1)
        radial = radial + point.gamma_d * (units[1][:, first_S] * units[1][:, second_S]).unsqueeze(0)
        return (point.scale * crossed - pool.z_QD[rows].unsqueeze(2) * radial) * norm_S

    return weighted_sum(gradients, pool.label_QD, centre_QD=pool.p_QD)


def num_coordinates(rank: int) -> int:
    """Of a symmetric matrix of `rank` rows."""
    return rank * (rank + 1) // 2


def _coordinates(rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both columns of each coordinate, the earlier one first, and what makes coordinates orthonormal.

    A coordinate c of two different columns stands for c / sqrt(2) on both sides of the diagonal.
    """
    second_S, first_S = torch.tril_indices(rank, rank)
    return first_S, second_S, torch.where(first_S == second_S, 1.0, 2.0).double().sqrt()


def _pool_product(pool: HeadPool, symmetric_KHH: Tensor) -> Tensor:
    """Sum over the pool's pairs of G_ij times its coefficient, E_{y ~ labels}(e_y - p)(e_y - p)^T applied to <G, V>."""
    point, units = pool.point, (pool.query_unit_QH, pool.document_unit_DH)
    # <G_ij, V> for every pair
    seen_KQD = 2 * point.scale * (pool.query_QH @ symmetric_KHH @ pool.document_DH.T)
    query_KQ, document_KD = (((unit @ symmetric_KHH) * unit).sum(dim=2) for unit in units)
    radial_KQD = point.gamma_q * query_KQ.unsqueeze(2) + point.gamma_d * document_KD.unsqueeze(1)
    weight_KQD = covariance_product(seen_KQD - pool.z_QD * radial_KQD, pool.p_QD, pool.label_QD)
    crossed_KHH = pool.query_QH.T @ weight_KQD @ pool.document_DH
    total_KHH = point.scale * (crossed_KHH + crossed_KHH.transpose(1, 2))
    radial_KQD = weight_KQD * pool.z_QD
    for gamma, unit_NH, weight_KN in zip(
        (point.gamma_q, point.gamma_d), units, (radial_KQD.sum(dim=2), radial_KQD.sum(dim=1)), strict=True
    ):
        if gamma:
            total_KHH = total_KHH - gamma * ((unit_NH.T * weight_KN.unsqueeze(1)) @ unit_NH)
    return total_KHH


def covariance_product(values_KQD: Tensor, p_QD: Tensor, label_QD: Tensor) -> Tensor:
    """E_{y ~ labels}[(e_y - p)(e_y - p)^T] times values, for each query: the loss's metric on logits [K, Q, D].

    Where labels come from p itself it is diag(p) - p p^T, the Hessian of the loss.
    """
    centred_KQD = label_QD * (values_KQD - (p_QD * values_KQD).sum(dim=2, keepdim=True))
    return centred_KQD - p_QD * centred_KQD.sum(dim=2, keepdim=True)


def _rows(pool: HeadPool, rows: slice) -> HeadPool:
    return HeadPool(
        query_QH=pool.query_QH[rows],
        document_DH=pool.document_DH,
        query_unit_QH=pool.query_unit_QH[rows],
        document_unit_DH=pool.document_unit_DH,
        z_QD=pool.z_QD[rows],
        p_QD=pool.p_QD[rows],
        label_QD=pool.label_QD[rows],
        point=pool.point,
    )


def _inner_products(one: HeadPool, other: HeadPool) -> Tensor:
    """<G_ij, G_kl> of all pairs of both pools, float64 [Q, D, Q', D']."""

    def by(left: Tensor, right: Tensor, left_dim: int, right_dim: int) -> Tensor:
        """Inner products of vectors, laid out on two of the four dimensions."""
        shape = [1, 1, 1, 1]
        shape[left_dim], shape[right_dim] = len(left), len(right)
        return (left @ right.T).reshape(shape)

    q, d, u, w = one.query_QH, one.document_DH, one.query_unit_QH, one.document_unit_DH
    q_, d_, u_, w_ = other.query_QH, other.document_DH, other.query_unit_QH, other.document_unit_DH
    z, z_ = one.z_QD[:, :, None, None], other.z_QD
    (scale, gamma_q, gamma_d) = (one.point.scale, one.point.gamma_q, one.point.gamma_d)
    crossed = 2 * scale**2 * (by(d, d_, 1, 3) * by(q, q_, 0, 2) + by(d, q_, 1, 2) * by(q, d_, 0, 3))
    # what stands between the crossed term of one and the radial terms of the other
    mixed_ = gamma_q * by(d, u_, 1, 2) * by(q, u_, 0, 2) + gamma_d * by(d, w_, 1, 3) * by(q, w_, 0, 3)
    mixed = gamma_q * by(u, d_, 0, 3) * by(u, q_, 0, 2) + gamma_d * by(w, d_, 1, 3) * by(w, q_, 1, 2)
    radial = gamma_q**2 * by(u, u_, 0, 2) ** 2 + gamma_d**2 * by(w, w_, 1, 3) ** 2
    radial = radial + gamma_q * gamma_d * (by(u, w_, 0, 3) ** 2 + by(w, u_, 1, 2) ** 2)
    return crossed - 2 * scale * (z_ * mixed_ + z * mixed) + z * z_ * radial


def _centred(products_QDXY: Tensor, one: HeadPool, other: HeadPool) -> Tensor:
    """Inner products of gradients less each query's mean under p."""
    products = products_QDXY - torch.einsum("qd,qdxy->qxy", one.p_QD, products_QDXY).unsqueeze(1)
    return products - torch.einsum("xy,qdxy->qdx", other.p_QD, products).unsqueeze(3)
