"""The processes that train one trial together: one for each device. A process alone exchanges nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor

_BUCKET_NUMBERS = 2**23  # of float32: 32 MiB, so that the copy beside the gradients stays small


@dataclass(frozen=True, kw_only=True)
class Processes:
    """This process's place among `size`. Every method must be called by all of them, in the same order."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """Replace `tensor` by its sum over all processes."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)

    def add_up_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace each gradient by its sum over all processes. One that no process has stays absent."""
        if self.size == 1:
            return
        weights = [weight for weight in parameters if weight.requires_grad]
        if not weights:
            return
        seen = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.int32)
        seen = seen.to(weights[0].device)
        self.add_up(seen)
        present = [weight for weight, count in zip(weights, seen.tolist(), strict=True) if count]
        for bucket in _buckets(present):
            gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in bucket]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            self.add_up(flat)
            for weight, summed in zip(bucket, flat.split([g.numel() for g in gradients]), strict=True):
                weight.grad = summed.view_as(weight).clone()

    def number_of_first(self, value: float, device: torch.device) -> float:
        """The first process's number, exactly, in all of them."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        torch.distributed.broadcast(shared, src=0)
        return float(shared)

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        if self.size > 1:
            torch.distributed.barrier()


def _buckets(weights: list[Tensor]) -> Iterable[list[Tensor]]:
    bucket: list[Tensor] = []
    for weight in weights:
        if bucket and sum(w.numel() for w in bucket) + weight.numel() > _BUCKET_NUMBERS:
            yield bucket
            bucket = []
        bucket.append(weight)
    if bucket:
        yield bucket
