"""Token embeddings whose gradient is added up in place.

A batch's chunks see some thousand of a vocabulary's tokens. torch's embedding makes a dense gradient of the whole
vocabulary for each chunk (47 MB for MiniLM) and adds it to the last; here only the rows that were seen are added to.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AddingEmbedding(nn.Embedding):
    """torch's embedding module with the same gradient, left in the weight's `grad` when backward has passed it."""

    def forward(self, input: Tensor) -> Tensor:
        """Vectors of token ids."""
        if not self.training or not torch.is_grad_enabled() or not self.weight.requires_grad:
            return super().forward(input)
        return _Lookup.apply(self.weight, input, self.padding_idx)


def use_adding_embeddings(module: nn.Module) -> None:
    """Turn every plain embedding module inside into one that adds, in place: its weight stays the same tensor."""
    for child in module.modules():
        if type(child) is nn.Embedding and not child.sparse and child.max_norm is None and not child.scale_grad_by_freq:
            child.__class__ = AddingEmbedding


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, padding_idx: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.weight, ctx.padding_idx = weight, padding_idx
        return F.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        (ids,), weight = ctx.saved_tensors, ctx.weight
        rows = gradient.reshape(-1, gradient.shape[-1]).to(weight.dtype)
        if ctx.padding_idx is not None:
            rows = rows.masked_fill((ids == ctx.padding_idx).reshape(-1, 1), 0)
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        weight.grad.index_add_(0, ids.reshape(-1), rows)
        return None, None, None
