"""Which chunks of a batch keep their graph from the forward to the backward pass: as many as memory allows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import psutil
import torch
from torch import Tensor, nn

from trainers.training.chunks import Chunk

# Of the memory that is free: on a CPU it is shared with other trials, on an accelerator with what the step allocates.
_SHARE_OF_FREE = {"cpu": 0.25, "cuda": 0.8}
_COPIES_TO_COME = 3  # of the trained weights: their gradients and AdamW's two averages
_CGROUP_LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


class HeldGraphs:
    """Decides by `chunk_size`: so many texts' graphs at a time; all with None; as many as fit with 'auto'."""

    def __init__(self, chunk_size: int | Literal["auto"] | None) -> None:
        self._chunk_size = chunk_size
        self._most_slots: int | None = None  # with 'auto', once it was measured

    def choose(self, chunks: Sequence[Chunk], model: nn.Module, run: Callable[[Chunk], Tensor]) -> list[bool]:
        """For each of this process's chunks, whether its graph is held.

        The last ones are, which the backward pass needs no second time. `run` embeds a chunk with its graph: 'auto'
        measures once, on the first chunk, which is the one of the longest texts.
        """
        if self._chunk_size is None or not chunks:
            return [True] * len(chunks)
        if isinstance(self._chunk_size, int):
            return _last_within([chunk.num_texts for chunk in chunks], self._chunk_size)
        if self._most_slots is None:
            self._most_slots = _most_slots(chunks[0], model, run)
        return _last_within([chunk.num_slots for chunk in chunks], self._most_slots)


def _last_within(sizes: Sequence[int], most: int) -> list[bool]:
    """The last items whose sum is within `most`; the very last always."""
    held = [False] * len(sizes)
    total = 0
    for i in reversed(range(len(sizes))):
        total += sizes[i]
        if total > most and i < len(sizes) - 1:
            break
        held[i] = True
    return held


def _most_slots(chunk: Chunk, model: nn.Module, run: Callable[[Chunk], Tensor]) -> int:
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    device = weights[0].device.type
    to_come = _COPIES_TO_COME * sum(weight.numel() * weight.element_size() for weight in weights)
    budget = _SHARE_OF_FREE[device] * max(0, free_bytes(device) - to_come)
    return int(budget / (graph_bytes(chunk, model, run) / chunk.num_slots))


def graph_bytes(chunk: Chunk, model: nn.Module, run: Callable[[Chunk], Tensor]) -> int:
    """Bytes that the graph of a chunk holds, each storage once, the weights themselves not counted."""
    known = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes: dict[int, int] = {}
    kept = []  # a storage that is freed could come again under the same address

    def count(tensor: Tensor) -> None:
        # The graph gets nothing to keep: a node that held its own output would keep itself, and all weights, for ever.
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
            kept.append(storage)

    device = next(model.parameters()).device
    with torch.autograd.graph.saved_tensors_hooks(count, _unpack_nothing):
        run(chunk.to(device))
    return max(1, sum(sizes.values()))


def _unpack_nothing(_: None) -> Tensor:
    raise RuntimeError("a graph that was only measured is not differentiated")


def free_bytes(device: str) -> int:
    """Memory that this process may still take on a device of that type."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
    found = [psutil.virtual_memory().available]
    for limit, used in _CGROUP_LIMITS:
        if limit.is_file() and (text := limit.read_text().strip()).isdigit():
            found.append(int(text) - int(used.read_text()))
    return max(0, min(found))
