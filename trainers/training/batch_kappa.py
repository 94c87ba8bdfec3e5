"""log10 kappa of the Fisher information of the batch at hand: closed forms on its embeddings, no backward pass.

It is block `embedding` of `trainers.fisher` at the point where the training stands: its exponents, its scale, the raw
embeddings of the batch with their dropout. A probe takes its subspace from other pairs; a batch has none, so that the
principal directions are its own, and values of one batch are biased and noisy. They show how kappa moves, and are no
call. Under both loss directions it is that of InfoNCE over documents.

Shapes: Q queries, D documents of the batch, H embedding size.
"""

import torch
from torch import Tensor

from trainers.fisher.information import Point, Pool, document_fisher, log_probabilities, query_fisher
from trainers.fisher.spectrum import log10_kappa
from trainers.fisher.subspace import shared_subspace

RANK = 8  # of the batch's principal directions: the smallest of a probe's grid, which a batch can estimate


@torch.no_grad()
def batch_log10_kappa(query_QH: Tensor, document_DH: Tensor, masked_QD: Tensor, point: Point) -> Tensor:
    """log10 kappa, float64 []; NaN where the embeddings do not vary in RANK directions, or F is zero.

    Slots count as documents of their own: a text that stands in several has the same embedding but for dropout.
    """
    nothing = query_QH.new_full((), torch.nan, dtype=torch.float64)
    try:
        subspace = shared_subspace(torch.cat([query_QH, document_DH]), (RANK,))
    except ValueError:  # they are all the same
        return nothing
    if subspace.ranks != (RANK,):
        return nothing
    slots = torch.arange(len(document_DH), device=document_DH.device)
    pool = Pool(query_QH=query_QH, document_DH=document_DH, document_D=slots, masked_QD=masked_QD)
    p_QD = log_probabilities(pool, point).exp()
    fisher_RR = sum(of(pool, p_QD, point, subspace.basis_HR) for of in (query_fisher, document_fisher))
    assert isinstance(fisher_RR, Tensor), "two blocks were added"
    return log10_kappa(fisher_RR.unsqueeze(0), RANK)[0]
