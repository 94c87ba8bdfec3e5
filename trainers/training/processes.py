"""The processes that train one trial together: one for each device. A process alone exchanges nothing."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor

_BUCKET_NUMBERS = 2**23  # of float32: 32 MiB, so that the copy beside the gradients stays small


class LostPeerError(RuntimeError):
    """An exchange with the other processes failed: most likely one of them died. No fault of the trial itself."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """This process's place among `size`. Every method must be called by all of them, in the same order."""

    rank: int = 0
    size: int = 1

    @classmethod
    def launched(cls) -> "Processes":
        """Those of the process group or, before there is one, of who launched this process (torchrun's variables)."""
        if torch.distributed.is_initialized():
            return cls(rank=torch.distributed.get_rank(), size=torch.distributed.get_world_size())
        return cls(rank=int(os.environ.get("RANK", 0)), size=int(os.environ.get("WORLD_SIZE", 1)))

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """Replace `tensor` by its sum over all processes."""
        if self.size > 1:
            with _exchange():
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
        with _exchange():
            torch.distributed.broadcast(shared, src=0)
        return float(shared)

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        if self.size > 1:
            with _exchange():
                torch.distributed.barrier()


@contextmanager
def _exchange() -> Iterator[None]:
    """Tell a failed exchange from a failed computation: gloo raises a bare RuntimeError for a closed connection."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise LostPeerError(f"lost another process of the trial: {error}") from error


def _buckets(weights: list[Tensor]) -> Iterable[list[Tensor]]:
    bucket: list[Tensor] = []
    for weight in weights:
        if bucket and sum(w.numel() for w in bucket) + weight.numel() > _BUCKET_NUMBERS:
            yield bucket
            bucket = []
        bucket.append(weight)
    if bucket:
        yield bucket
