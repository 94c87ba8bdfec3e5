"""Fisher information of the two normalisation exponents, at a similarity's own point.

z_ij = scale * q_i.d_j / (|q_i|^gamma_q |d_j|^gamma_d), so that dz_ij / dgamma_q = -log|q_i| z_ij, and the same of d_j.
In another unit of length m the logarithms differ by log m, which is another derivative and another kappa. So norms
enter divided by their geometric mean, each side's by its own; the scale takes up the constant, and z_ij stays what it
is. The block is 2 x 2, in no subspace: F = mean_i Cov_{j ~ p_i}(dz_ij / d(gamma_q, gamma_d)).

A side whose norms are all the same has no information on its exponent, and F is singular then; it is zero where both
sides are so, as unit vectors are up to float32's rounding, which is taken for none.

Shapes: Q queries, D candidate slots, N vectors, H embedding size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.fisher.information import SAME_NORMS, Point, Pool, logits, norms, weighted_sum
from trainers.similarity import SMALLEST_NORM


@dataclass(frozen=True, kw_only=True)
class LogMeans:
    """The natural logarithm of the geometric mean of each side's norms: what the exponents take for 1."""

    query: float
    document: float
    query_varies: bool = True
    document_varies: bool = True


def log_means(query_NH: Tensor, document_NH: Tensor) -> LogMeans:
    """Of all texts of the pools, each once; zero vectors, which nothing divides, are left out."""
    query_logs, document_logs = _log_norms(query_NH), _log_norms(document_NH)
    query, document = (logs.mean().nan_to_num().item() for logs in (query_logs, document_logs))
    return LogMeans(
        query=query,
        document=document,
        query_varies=bool(((query_logs - query).abs() > SAME_NORMS).any()),
        document_varies=bool(((document_logs - document).abs() > SAME_NORMS).any()),
    )


def gamma_gradients(pool: Pool, point: Point, means: LogMeans) -> Tensor:
    """dz_ij / d(gamma_q, gamma_d), float64 [Q, D, 2]."""
    z_QD = logits(pool, point)
    query_QD = means.query_varies * (means.query - norms(pool.query_QH).log()) * z_QD
    document_QD = means.document_varies * (means.document - norms(pool.document_DH).log()).T * z_QD
    return torch.stack([query_QD, document_QD], dim=2)


def gamma_fisher(pool: Pool, p_QD: Tensor, point: Point, means: LogMeans, *, label_QD: Tensor | None = None) -> Tensor:
    """F of block `gamma`, summed (not averaged) over the pool's queries, float64 [2, 2]."""
    gradients_QD2 = gamma_gradients(pool, point, means)
    return weighted_sum(lambda rows: gradients_QD2[rows], p_QD if label_QD is None else label_QD, centre_QD=p_QD)


def _log_norms(vectors_NH: Tensor) -> Tensor:
    norm_N = torch.linalg.vector_norm(vectors_NH.double(), dim=1)
    return norm_N[norm_N > SMALLEST_NORM].log()
