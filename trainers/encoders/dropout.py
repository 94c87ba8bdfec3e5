"""Dropout that is fast on a CPU, where torch draws each element from a serial Mersenne twister, one at a time.

The masks come from torch's own generator too, four elements from one of its 64-bit numbers: seeds and their states act
as ever. A probability is that of torch's dropout to 2**-17.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 2**16


class FastDropout(nn.Dropout):
    """torch's dropout module, fast on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements in training mode."""
        return dropout(input, self.p) if self.training else input


def use_fast_dropout(module: nn.Module) -> None:
    """Replace every dropout module inside, in place. States and names stay as they are."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, FastDropout(child.p).train(child.training))


def dropout(x: Tensor, p: float) -> Tensor:
    """`x` with each element zeroed with probability `p` and the others scaled by 1 / (1 - p)."""
    if not p:
        return x
    return _Drop.apply(x, p) if x.device.type == "cpu" else F.dropout(x, p)


class _Drop(torch.autograd.Function):
    """Keeps the mask in one byte an element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        keep = _draw(x, p)
        ctx.save_for_backward(keep)
        ctx.factor = 1 / (1 - p)
        return (x * keep).mul_(ctx.factor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (gradient * keep).mul_(ctx.factor), None


def _draw(x: Tensor, p: float) -> Tensor:
    """A mask of what is kept, bool, shaped as `x`."""
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int16)[: x.numel()].view(x.shape)
    return numbers >= round(p * _LEVELS) - _LEVELS // 2
