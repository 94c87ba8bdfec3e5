"""Closed forms of the Fisher information of the contrastive softmax in the space of embeddings, before any training.

Logits are z_ij = scale * q_i.d_j / (|q_i|^gamma_q |d_j|^gamma_d), and p_ij is their softmax over the candidates j of
query i. The Fisher information of a parameter theta is F = mean_i Cov_{j ~ p_i}(dz_ij / dtheta): exact over the
categorical, without sampled or observed labels. Two blocks, each H x H:

- `embedding_query`: theta is the query's embedding, F = mean_i Cov_j(dz_ij / dq_i);
- `embedding_document`: each document is a parameter of its own. z_ij alone depends on d_j, so its covariance is
  p_ij (1 - p_ij) g_ij g_ij^T with g_ij = dz_ij / dd_j, and F = mean_i sum_j p_ij (1 - p_ij) g_ij g_ij^T.

With labels from another distribution w_i than p_i the same sums are E_{y ~ w_i} of the outer product of the gradient of
-log p_iy: with the observed labels (w_ij = 1 where j is the positive) this is the *empirical* Fisher information, which
is another matrix and no approximation of F far from a fitted model (Kunstner et al., arXiv 1905.12558).

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
# Norms whose relative spread is below this are the same: an encoder whose last step normalises (unit vectors, a
# LayerNorm before its training) leaves float32's rounding of them, some 1e-7, which is no property of a text.
SAME_NORMS = 1e-6


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


def logits(pool: Pool, point: Point) -> Tensor:
    """Z of each query and slot, float64 [Q, D]; masked slots have one too."""
    query_QH = pool.query_QH.double() / norms(pool.query_QH) ** point.gamma_q
    document_DH = pool.document_DH.double() / norms(pool.document_DH) ** point.gamma_d
    return point.scale * (query_QH @ document_DH.T)


def log_probabilities(pool: Pool, point: Point) -> Tensor:
    """The log-softmax (nats) of each query over its candidates, float64 [Q, D]; -inf at masked slots."""
    return logits(pool, point).masked_fill(pool.masked_QD, -torch.inf).log_softmax(dim=1)


def observed_labels(pool: Pool) -> Tensor:
    """The distribution of the labels that were observed, float64 [Q, D]: 1 at each query's positive."""
    return torch.eye(*pool.masked_QD.shape, dtype=torch.float64)


def query_gradients(query_QH: Tensor, document_DH: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """dz_ij / dq_i on the basis, float64 [Q, D, R]: scale |q|^-gamma_q (I - gamma_q u u^T) d |d|^-gamma_d, u = q / |q|.

    Orthogonal to q_i where gamma_q is 1.
    """
    document_DH = document_DH.double() / norms(document_DH) ** point.gamma_d
    return _gradients(query_QH.double(), document_DH, point.gamma_q, point.scale, basis_HR)


def document_gradients(query_QH: Tensor, document_DH: Tensor, point: Point, basis_HR: Tensor) -> Tensor:
    """dz_ij / dd_j on the basis, float64 [Q, D, R]; orthogonal to d_j where gamma_d is 1."""
    query_QH = query_QH.double() / norms(query_QH) ** point.gamma_q
    return _gradients(document_DH.double(), query_QH, point.gamma_d, point.scale, basis_HR).transpose(0, 1)


def query_fisher(pool: Pool, p_QD: Tensor, point: Point, basis_HR: Tensor, *, label_QD: Tensor | None = None) -> Tensor:
    """B^T F B of block `embedding_query`, summed (not averaged) over the pool's queries, float64 [R, R].

    `label_QD` is the distribution of the labels, by default p itself: the Fisher information.
    """

    def gradients(rows: slice) -> Tensor:
        return query_gradients(pool.query_QH[rows], pool.document_DH, point, basis_HR)

    return weighted_sum(gradients, p_QD if label_QD is None else label_QD, centre_QD=p_QD)


def document_fisher(
    pool: Pool, p_QD: Tensor, point: Point, basis_HR: Tensor, *, label_QD: Tensor | None = None
) -> Tensor:
    """B^T F B of block `embedding_document`, summed (not averaged) over the pool's queries, float64 [R, R].

    A document in several slots is one parameter: with P its probability over these slots, its term is P (1 - P) g g^T,
    and with labels that fall on it with probability W it is (W (1 - P)^2 + (1 - W) P^2) g g^T.
    """
    same_DD = (pool.document_D.unsqueeze(0) == pool.document_D.unsqueeze(1)).double()
    candidate_QD = (~pool.masked_QD).double()

    def of_document(slot_QD: Tensor) -> Tensor:
        return (slot_QD @ same_DD).clamp(max=1)  # rounding may leave a saturated one above 1

    p_document_QD, label_document_QD = of_document(p_QD), of_document(p_QD if label_QD is None else label_QD)
    weight_QD = label_document_QD * (1 - p_document_QD) ** 2 + (1 - label_document_QD) * p_document_QD**2
    num_slots_QD = (candidate_QD @ same_DD).clamp(min=1)

    def gradients(rows: slice) -> Tensor:
        return document_gradients(pool.query_QH[rows], pool.document_DH, point, basis_HR)

    return weighted_sum(gradients, weight_QD * candidate_QD / num_slots_QD)


def weighted_sum(gradients: Callable[[slice], Tensor], weight_QD: Tensor, *, centre_QD: Tensor | None = None) -> Tensor:
    """Sum of weight_ij x_ij x_ij^T, float64 [R, R], a block of queries at a time.

    Args:
        gradients: those of some queries, [rows, D, R].
        weight_QD: of each.
        centre_QD: x_ij is the gradient less the query's mean one under these probabilities; None: the gradient.
    """
    num_candidates, num_columns = gradients(slice(0, 1)).shape[1:]
    total_RR = weight_QD.new_zeros(num_columns, num_columns)
    for rows in _blocks(len(weight_QD), num_candidates * num_columns):
        gradients_NDR = gradients(rows)
        if centre_QD is not None:
            gradients_NDR = gradients_NDR - torch.einsum("qd,qdr->qr", centre_QD[rows], gradients_NDR).unsqueeze(1)
        roots_XR = (gradients_NDR * weight_QD[rows].sqrt().unsqueeze(2)).flatten(0, 1)
        total_RR += roots_XR.T @ roots_XR
    return total_RR


def norms(vectors_NH: Tensor) -> Tensor:
    """The norm of each vector, float64 [N, 1]; 1 for a zero vector, which no similarity divides."""
    norms_N1 = torch.linalg.vector_norm(vectors_NH.double(), dim=1, keepdim=True)
    return torch.where(norms_N1 > SMALLEST_NORM, norms_N1, 1.0)


def _gradients(own_NH: Tensor, other_MH: Tensor, gamma: float, scale: float, basis_HR: Tensor) -> Tensor:
    """Gradients of scale * own.other / |own|^gamma by `own`, on the basis [N, M, R]; no H x H matrix is formed."""
    norm_N1 = norms(own_NH)
    unit_NH = own_NH / norm_N1
    along_NM1 = (unit_NH @ other_MH.T).unsqueeze(2)
    projected_NMR = (other_MH @ basis_HR).unsqueeze(0) - gamma * along_NM1 * (unit_NH @ basis_HR).unsqueeze(1)
    return scale * projected_NMR / norm_N1.unsqueeze(2) ** gamma


def _blocks(num_queries: int, elements_per_query: int) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // elements_per_query)
    for start in range(0, num_queries, step):
        yield slice(start, start + step)
