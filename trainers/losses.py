"""The contrastive loss. Suffixes: Q queries, D documents of the batch, H embedding size; all values are float32."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trainers.similarity import scores


class NormStatistics(NamedTuple):
    """Raw embedding norms of a batch: 0-dimensional, without gradient; deviations are those of the batch itself."""

    query_mean: Tensor
    query_std: Tensor
    document_mean: Tensor
    document_std: Tensor


class InfoNCE(NamedTuple):
    """The mean loss over the queries, and what the batch's norms were."""

    loss: Tensor
    norms: NormStatistics


def info_nce(
    query_QH: Tensor,
    document_DH: Tensor,
    *,
    masked_QD: Tensor,
    gammas: tuple[Tensor | float, Tensor | float],
    scale: float,
) -> InfoNCE:
    """InfoNCE over in-batch negatives: -log softmax_j(scale * s(q_i, d_j)) at j = i, mean over i (arXiv 1807.03748).

    Query i's positive is document i; further documents (D > Q) are negatives of every query.

    Args:
        query_QH: raw query embeddings.
        document_DH: raw document embeddings.
        masked_QD: bool, True for documents that are no negatives of a query although they are not its positive.
        gammas: (gamma_q, gamma_d), the exponents of the similarity, with gradient where trained.
        scale: what scores are multiplied by, 1 / temperature; the same for every similarity.
    """
    logits_QD = scores(query_QH, document_DH, *gammas) * scale  # float32 whatever the autocast (FlagEmbedding#1370)
    logits_QD = logits_QD.masked_fill(masked_QD, -torch.inf)
    positive_Q = torch.arange(len(query_QH), device=logits_QD.device)
    return InfoNCE(F.cross_entropy(logits_QD, positive_Q), _norm_statistics(query_QH, document_DH))


@torch.no_grad()
def _norm_statistics(query_QH: Tensor, document_DH: Tensor) -> NormStatistics:
    query_Q = torch.linalg.vector_norm(query_QH.float(), dim=-1)
    document_D = torch.linalg.vector_norm(document_DH.float(), dim=-1)
    return NormStatistics(query_Q.mean(), query_Q.std(correction=0), document_D.mean(), document_D.std(correction=0))
