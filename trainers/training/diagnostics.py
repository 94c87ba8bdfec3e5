"""What a batch's scores and norms show of a training, beside its loss. Nothing here has a gradient.

Suffixes: Q queries, D documents, H embedding size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

SATURATED_ABOVE = 0.99  # the probability of the likeliest candidate; such a query hardly teaches anything
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, kw_only=True)
class NormNumbers:
    """Raw embedding norms of a batch: mean, deviation (of the batch itself) and quantiles of each side."""

    query_norm_mean: float
    query_norm_std: float
    query_norm_q05: float
    query_norm_median: float
    query_norm_q95: float
    document_norm_mean: float
    document_norm_std: float
    document_norm_q05: float
    document_norm_median: float
    document_norm_q95: float


@dataclass(frozen=True, kw_only=True)
class SoftmaxNumbers:
    """The softmax over a batch's candidates, as means over its queries.

    Attributes:
        logit_std: deviation of a query's logits over its candidates.
        perplexity: exp of the entropy (nats) of a query's probabilities: of how many candidates it still is unsure.
        saturated_share: the share of queries whose likeliest candidate has a probability above SATURATED_ABOVE.
        score_margin: score of the positive less that of the best negative, before the scale.
        negatives_per_query: candidates that are neither the positive nor masked.
    """

    logit_std: float
    perplexity: float
    saturated_share: float
    score_margin: float
    negatives_per_query: float


NUM_NORM_NUMBERS = len(fields(NormNumbers))
NUM_SOFTMAX_NUMBERS = len(fields(SoftmaxNumbers))


def norm_numbers(values: Sequence[float]) -> NormNumbers:
    """Name what `norm_statistics` computed."""
    return NormNumbers(**dict(zip((field.name for field in fields(NormNumbers)), values, strict=True)))


def softmax_numbers(values: Sequence[float]) -> SoftmaxNumbers:
    """Name what `softmax_statistics` computed."""
    return SoftmaxNumbers(**dict(zip((field.name for field in fields(SoftmaxNumbers)), values, strict=True)))


@torch.no_grad()
def norm_statistics(query_QH: Tensor, document_DH: Tensor) -> Tensor:
    """The numbers of `NormNumbers`, float32 [NUM_NORM_NUMBERS]."""
    return torch.cat([_of_side(query_QH), _of_side(document_DH)])


@torch.no_grad()
def softmax_statistics(logits_QD: Tensor, factor: float) -> Tensor:
    """The numbers of `SoftmaxNumbers` [NUM_SOFTMAX_NUMBERS], of the logits' dtype. Query i's positive is document i.

    Args:
        logits_QD: scores times `factor`, up to a number for each query; minus infinity where a document is no
            candidate.
        factor: the scale.
    """
    candidate_QD = logits_QD > -torch.inf
    num_Q = candidate_QD.sum(dim=1)
    zeroed_QD = logits_QD.masked_fill(~candidate_QD, 0)
    mean_Q = zeroed_QD.sum(dim=1) / num_Q
    squares_QD = ((zeroed_QD - mean_Q[:, None]) ** 2).masked_fill(~candidate_QD, 0)
    log_p_QD = logits_QD.log_softmax(dim=1)
    p_QD = log_p_QD.exp()
    entropy_Q = -(p_QD * log_p_QD.masked_fill(~candidate_QD, 0)).sum(dim=1)
    positive_Q = logits_QD.diagonal()
    best_Q = logits_QD.diagonal_scatter(torch.full_like(positive_Q, -torch.inf)).amax(dim=1)
    has_negative_Q = num_Q > 1
    margin_Q = torch.where(has_negative_Q, positive_Q - best_Q, torch.nan)
    return torch.stack(
        [
            (squares_QD.sum(dim=1) / num_Q).sqrt().mean(),
            entropy_Q.exp().mean(),
            (p_QD.amax(dim=1) > SATURATED_ABOVE).to(p_QD.dtype).mean(),
            margin_Q.nanmean() / factor,
            (num_Q - 1).to(p_QD.dtype).mean(),
        ]
    )


def _of_side(vectors_NH: Tensor) -> Tensor:
    norms_N = torch.linalg.vector_norm(vectors_NH.float(), dim=-1)
    quantiles = torch.quantile(norms_N, norms_N.new_tensor(_QUANTILES))
    return torch.cat([torch.stack([norms_N.mean(), norms_N.std(correction=0)]), quantiles])
