"""The Fisher information of any parameters by its definition: autograd on logits, pair by pair."""

import torch
from torch.func import jacrev


def logits(query_QH, document_DH, point):
    """The study's formula, float64 [Q, D]."""
    norms = query_QH.norm(dim=1, keepdim=True) ** point.gamma_q * document_DH.norm(dim=1) ** point.gamma_d
    return point.scale * (query_QH @ document_DH.T) / norms


def fisher_of(logits_of, parameters, masked_QD, *, observed=False):
    """mean_i E_y[g g^T] with g = d(-log p_iy) / dparameters; y from p_i, or the positive i where `observed`."""

    def losses(values):
        return -logits_of(values).masked_fill(masked_QD, -torch.inf).log_softmax(dim=1)

    flat = parameters.flatten()
    with torch.no_grad():
        p_QD = (-losses(parameters)).exp()
    jacobian_QDN = jacrev(lambda x: losses(x.view_as(parameters)).nan_to_num(posinf=0.0))(flat)
    total = torch.zeros(len(flat), len(flat), dtype=flat.dtype)
    for i in range(len(p_QD)):
        labels = torch.eye(p_QD.shape[1], dtype=flat.dtype)[i] if observed else p_QD[i]
        for label, gradient_N in zip(labels, jacobian_QDN[i], strict=True):
            if label > 0:
                total += label * torch.outer(gradient_N, gradient_N)
    return total / len(p_QD)
