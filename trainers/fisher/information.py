"""Closed forms of the Fisher information of the contrastive softmax in the space of embeddings, before any training.

Logits are z_ij = scale * q_i.d_j / (|q_i|^gamma_q |d_j|^gamma_d), and p_ij is their softmax over the candidates j of
query i. The Fisher information of a parameter theta is F = mean_i Cov_{j ~ p_i}(dz_ij / dtheta): exact over the
categorical, without sampled or observed labels. Two blocks, each H x H:

- `embedding_query`: theta is the query's embedding, F = mean_i Cov_j(dz_ij / dq_i);
- `embedding_document`: each document is a parameter of its own. z_ij alone depends on d_j, so its covariance is
  p_ij (1 - p_ij) g_ij g_ij^T with g_ij = dz_ij / dd_j, and F = mean_i sum_j p_ij (1 - p_ij) g_ij g_ij^T.

Gradients are projected on a basis B before they are squared, so that B^T F B comes without an H x H matrix. Everything
is float64: kappa is a ratio of the ends of a spectrum. A zero vector counts as in `trainers/similarity.py`.

Shapes: Q queries, D candidate slots that these queries share, H embedding size, R columns of the basis.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.similarity import SMALLEST_NORM

BLOCK_ELEMENTS = 1 << 22  # of gradients held at once (32 MiB)


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where the Fisher information is taken: a similarity's exponents, and the scale (1 / temperature)."""

    gamma_q: float
    gamma_d: float
    scale: float


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Queries and the candidates that they share, as in training on in-batch negatives: slot i is query i's positive.

    `document_D` numbers the documents, since one document may stand in several slots; `masked_QD` is true where a slot
    is no candidate of a query (another relevant document of it).
    """

    query_QH: Tensor
    document_DH: Tensor
    document_D: Tensor
    masked_QD: Tensor


def log_probabilities(pool: Pool, point: Point) -> Tensor:
    """The log-softmax (nats) of each query over its candidates, float64 [Q, D]; -inf at masked slots."""
    query_QH = pool.query_QH.double() / _norms(pool.query_QH) ** point.gamma_q
    document_DH = pool.document_DH.double() / _norms(pool.document_DH) ** point.gamma_d
    logits_QD = point.scale * (query_QH @ document_DH.T)
    return logits_QD.masked_fill(pool.masked_QD, -torch.inf).log_softmax(dim=1)


def query_gradients(query_QH: Tensor, document_DH: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """dz_ij / dq_i on the basis, float64 [Q, D, R]: scale |q|^-gamma_q (I - gamma_q u u^T) d |d|^-gamma_d, u = q / |q|.

    Orthogonal to q_i where gamma_q is 1.
    """
    document_DH = document_DH.double() / _norms(document_DH) ** point.gamma_d
    return _gradients(query_QH.double(), document_DH, point.gamma_q, point.scale, basis_HR)


def document_gradients(query_QH: Tensor, document_DH: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """dz_ij / dd_j on the basis, float64 [Q, D, R]; orthogonal to d_j where gamma_d is 1."""
    query_QH = query_QH.double() / _norms(query_QH) ** point.gamma_q
    return _gradients(document_DH.double(), query_QH, point.gamma_d, point.scale, basis_HR).transpose(0, 1)


def query_fisher(pool: Pool, p_QD: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """B^T F B of block `embedding_query`, summed (not averaged) over the pool's queries, float64 [R, R]."""

    def centred(gradients_QDR: Tensor, p_QD: Tensor) -> Tensor:
        mean_QR = torch.einsum("qd,qdr->qr", p_QD, gradients_QDR)
        return (gradients_QDR - mean_QR.unsqueeze(1)) * p_QD.sqrt().unsqueeze(2)

    return _summed(pool, p_QD, lambda query_QH: query_gradients(query_QH, pool.document_DH, point, basis_HR), centred)


def document_fisher(pool: Pool, p_QD: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """B^T F B of block `embedding_document`, summed (not averaged) over the pool's queries, float64 [R, R].

    A document in several slots is one parameter: with P its probability over these slots, its term is P (1 - P) g g^T.
    """
    same_DD = (pool.document_D.unsqueeze(0) == pool.document_D.unsqueeze(1)).double()

    def weighted(gradients_QDR: Tensor, p_QD: Tensor) -> Tensor:
        others_QD = (1 - p_QD @ same_DD).clamp(min=0)  # rounding may leave a saturated one below 0
        return gradients_QDR * (p_QD * others_QD).sqrt().unsqueeze(2)

    return _summed(
        pool, p_QD, lambda query_QH: document_gradients(query_QH, pool.document_DH, point, basis_HR), weighted
    )


def _norms(vectors_NH: Tensor) -> Tensor:
    norms_N1 = torch.linalg.vector_norm(vectors_NH.double(), dim=1, keepdim=True)
    return torch.where(norms_N1 > SMALLEST_NORM, norms_N1, 1.0)


def _gradients(own_NH: Tensor, other_MH: Tensor, gamma: float, scale: float, basis_HR: Tensor) -> Tensor:
    """Gradients of scale * own.other / |own|^gamma by `own`, on the basis [N, M, R]; no H x H matrix is formed."""
    norm_N1 = _norms(own_NH)
    unit_NH = own_NH / norm_N1
    along_NM1 = (unit_NH @ other_MH.T).unsqueeze(2)
    projected_NMR = (other_MH @ basis_HR).unsqueeze(0) - gamma * along_NM1 * (unit_NH @ basis_HR).unsqueeze(1)
    return scale * projected_NMR / norm_N1.unsqueeze(2) ** gamma


def _summed(
    pool: Pool, p_QD: Tensor, gradients: Callable[[Tensor], Tensor], roots: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Sum of x x^T over the vectors x that `roots` makes of each query's gradients, a block of queries at a time."""
    num_columns = gradients(pool.query_QH[:1]).shape[2]
    total_RR = torch.zeros(num_columns, num_columns, dtype=torch.float64)
    for rows in _blocks(len(p_QD), p_QD.shape[1] * num_columns):
        roots_NR = roots(gradients(pool.query_QH[rows]), p_QD[rows]).flatten(0, 1)
        total_RR += roots_NR.T @ roots_NR
    return total_RR


def _blocks(num_queries: int, elements_per_query: int) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // elements_per_query)
    for start in range(0, num_queries, step):
        yield slice(start, start + step)
