"""Planned batches as padded token ids. Suffixes: S steps, B pairs of a batch, Q queries, D documents, T tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.batches import false_negatives
from trainers.encoder import Encoder, Side
from trainers.pairs import TrainingPairs
from trainers.retriever import Tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One batch: token ids of both sides [B, T], and which documents are false negatives, bool [Q, D] (Q = D = B)."""

    query: Tokens
    document: Tokens
    masked: Tensor

    @property
    def num_pairs(self) -> int:
        """The number of pairs B."""
        return len(self.masked)

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return Batch(
            query=Tokens(*(tensor.to(device) for tensor in self.query)),
            document=Tokens(*(tensor.to(device) for tensor in self.document)),
            masked=self.masked.to(device),
        )


def tokenised_batches(encoder: Encoder, pairs: TrainingPairs, plan_SB: NDArray[np.int64]) -> Iterator[Batch]:
    """The batches of a plan, on the CPU. The texts they need are tokenised once, before the first is yielded."""
    queries = _tokenised(encoder, pairs.query_texts, pairs.query_index[plan_SB], "query")
    documents = _tokenised(encoder, pairs.document_texts, pairs.document_index[plan_SB], "document")
    for batch_B in plan_SB:
        yield Batch(
            query=Tokens(*encoder.pad([queries[index] for index in pairs.query_index[batch_B].tolist()])),
            document=Tokens(*encoder.pad([documents[index] for index in pairs.document_index[batch_B].tolist()])),
            masked=torch.from_numpy(false_negatives(pairs, batch_B)),
        )


def _tokenised(encoder: Encoder, texts: Sequence[str], indices: NDArray[np.int64], side: Side) -> dict[int, list[int]]:
    """Token ids of the texts at `indices`, each once."""
    needed = np.unique(indices).tolist()
    return dict(zip(needed, encoder.tokenise([texts[index] for index in needed], side), strict=True))
