"""A batch as the encoder takes it: chunks of texts of similar length, so that few tokens are pads.

The batch itself, and so the loss, stays the random one that was planned. Chunks are formed from the whole batch, so
that they do not depend on how many processes share it.

Suffixes: N texts of a batch (its Q queries, then its D documents), C texts of a chunk, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.encoders.encode import batches_by_length
from trainers.encoders.encoder import Encoder, Side

# Tokens of a chunk, pads counted. No setting, but part of what a training is, since dropout is drawn by chunk.
# A core is fastest where a layer's states stay in its cache.
CHUNK_TOKENS = {"cpu": 1024, "cuda": 8192}
Ids = NDArray[np.int32]


class Chunk(NamedTuple):
    """Right-padded texts of one tower. `row_C` says which texts of the batch they are."""

    side: Side
    input_ids_CT: Tensor
    attention_mask_CT: Tensor
    row_C: Tensor

    @property
    def num_texts(self) -> int:
        """C."""
        return len(self.row_C)

    @property
    def num_slots(self) -> int:
        """Tokens, pads counted."""
        return self.input_ids_CT.numel()

    def to(self, device: torch.device) -> "Chunk":
        """The chunk on another device."""
        return Chunk(self.side, *(tensor.to(device, non_blocking=True) for tensor in self[1:]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One global batch. `target` is what the objective holds scores against (see `trainers.training.objectives`)."""

    chunks: Sequence[Chunk]
    num_queries: int
    num_documents: int
    num_tokens: int  # pads not counted
    target: Tensor

    @property
    def num_texts(self) -> int:
        """N."""
        return self.num_queries + self.num_documents

    @property
    def padding_share(self) -> float:
        """The share of pads where texts are laid out side by side: in attention alone where tokens are packed."""
        return 1 - self.num_tokens / sum(chunk.num_slots for chunk in self.chunks)


def make_batch(
    encoder: Encoder,
    queries: Sequence[Ids],
    documents: Sequence[Ids],
    target: Tensor,
    *,
    chunk_tokens: int,
    document_side: Side = "document",
) -> Batch:
    """The token ids of a batch's texts in chunks; both sides together where they share a tower.

    A chunk has at most `chunk_tokens` tokens, pads counted; a longer text is one of its own.
    """
    ids = [*queries, *documents]
    split: list[tuple[int, Side, int]] = [(0, "query", len(queries)), (len(queries), document_side, len(ids))]
    if encoder.tower_of("query") == encoder.tower_of(document_side):
        split = [(0, "query", len(ids))]
    pad_id = encoder.tokenizer.pad_token_id
    chunks = [
        Chunk(side, *padded([ids[row] for row in rows_C.tolist()], pad_id), torch.from_numpy(rows_C))
        for first, side, end in split
        for rows_C in _rows(ids, first, end, chunk_tokens)
    ]
    return Batch(
        chunks=chunks,
        num_queries=len(queries),
        num_documents=len(documents),
        num_tokens=sum(map(len, ids)),
        target=target,
    )


def share_of(chunks: Sequence[Chunk], rank: int, num_processes: int) -> list[int]:
    """Which chunks are a process's: the largest first, each to whom has the fewest tokens so far."""
    if num_processes == 1:
        return list(range(len(chunks)))
    loads = [0] * num_processes
    mine = []
    for index in sorted(range(len(chunks)), key=lambda i: -chunks[i].num_slots):
        taker = loads.index(min(loads))
        loads[taker] += chunks[index].num_slots
        if taker == rank:
            mine.append(index)
    return sorted(mine)


def padded(ids: Sequence[Ids], pad_id: int) -> tuple[Tensor, Tensor]:
    """Right-padded (input_ids_CT, attention_mask_CT), int64 on the CPU."""
    length_C1 = np.fromiter(map(len, ids), dtype=np.int64)[:, None]
    mask_CT = np.arange(length_C1.max()) < length_C1
    input_ids_CT = np.full(mask_CT.shape, pad_id, dtype=np.int64)
    input_ids_CT[mask_CT] = np.concatenate(ids)
    return torch.from_numpy(input_ids_CT), torch.from_numpy(mask_CT.astype(np.int64))


def _rows(ids: Sequence[Ids], first: int, end: int, chunk_tokens: int) -> Iterator[NDArray[np.int64]]:
    for rows in batches_by_length([len(text_ids) for text_ids in ids[first:end]], chunk_tokens):
        yield first + rows
