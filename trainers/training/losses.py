"""The contrastive loss. Suffixes: Q queries, D documents of the batch, H embedding size; all values are float32."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from search_spaces.specs import LossDirections
from trainers.similarity import scores


class InfoNCE(NamedTuple):
    """The mean loss over the queries, and the logits without a gradient (minus infinity where masked)."""

    loss: Tensor
    logits_QD: Tensor


def info_nce(
    query_QH: Tensor,
    document_DH: Tensor,
    *,
    masked_QD: Tensor,
    gammas: tuple[Tensor | float, Tensor | float],
    factor: float,
    directions: LossDirections = "query_to_document",
) -> InfoNCE:
    """InfoNCE over in-batch negatives: -log softmax_j(factor * s(q_i, d_j)) at j = i, mean over i (arXiv 1807.03748).

    Query i's positive is document i; further documents (D > Q) are negatives of every query. With both directions it is
    the mean of that and of -log softmax_i(factor * s(q_i, d_j)) at i = j over the queries of each positive d_j.

    Args:
        query_QH: raw query embeddings.
        document_DH: raw document embeddings.
        masked_QD: bool, True for documents that are no negatives of a query although they are not its positive.
        gammas: (gamma_q, gamma_d), the exponents of the similarity, with gradient where trained.
        factor: what scores are multiplied by, 1 / temperature.
        directions: whether positives are held against the other queries too.
    """
    logits_QD = scores(query_QH, document_DH, *gammas) * factor  # float32 whatever the autocast (FlagEmbedding#1370)
    logits_QD = logits_QD.masked_fill(masked_QD, -torch.inf)
    positive_Q = torch.arange(len(query_QH), device=logits_QD.device)
    loss = F.cross_entropy(logits_QD, positive_Q)
    if directions == "both":
        loss = (loss + F.cross_entropy(logits_QD[:, : len(query_QH)].T, positive_Q)) / 2
    return InfoNCE(loss, logits_QD.detach())
