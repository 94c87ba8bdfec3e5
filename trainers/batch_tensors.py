"""Planned batches as padded token ids. Suffixes: S steps, B pairs of a batch, Q queries, D documents, T tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.batches import false_negatives
from trainers.encode import BATCH_TOKENS, batches_by_length
from trainers.encoder import Encoder, Side
from trainers.pairs import TrainingPairs
from trainers.retriever import Texts, Tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One batch: the texts of both sides, and which documents are false negatives, bool [Q, D] (Q = D = B)."""

    query: Texts
    document: Texts
    masked: Tensor

    @property
    def num_pairs(self) -> int:
        """The number of pairs B."""
        return len(self.masked)

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        return Batch(query=self.query.to(device), document=self.document.to(device), masked=self.masked.to(device))


def tokenised_batches(
    encoder: Encoder, pairs: TrainingPairs, plan_SB: NDArray[np.int64], *, chunk_tokens: int | None = None
) -> Iterator[Batch]:
    """The batches of a plan, on the CPU. The texts they need are tokenised once, before the first is yielded.

    A chunk has at most `chunk_tokens` tokens, pads counted, by default those of an encoding batch.
    """
    budget = chunk_tokens or BATCH_TOKENS[next(encoder.parameters()).device.type]
    queries = _tokenised(encoder, pairs.query_texts, pairs.query_index[plan_SB], "query")
    documents = _tokenised(encoder, pairs.document_texts, pairs.document_index[plan_SB], "document")
    for batch_B in plan_SB:
        yield Batch(
            query=_in_chunks(encoder, [queries[i] for i in pairs.query_index[batch_B].tolist()], budget),
            document=_in_chunks(encoder, [documents[i] for i in pairs.document_index[batch_B].tolist()], budget),
            masked=torch.from_numpy(false_negatives(pairs, batch_B)),
        )


def _in_chunks(encoder: Encoder, ids: Sequence[Sequence[int]], budget: int) -> Texts:
    """Texts in chunks of similar length. A chunk runs faster too where its states stay in the cache."""
    rows = list(batches_by_length([len(text_ids) for text_ids in ids], budget))
    chunks = tuple(Tokens(*encoder.pad([ids[row] for row in rows_B])) for rows_B in rows)
    return Texts(chunks, torch.from_numpy(np.argsort(np.concatenate(rows))))


def _tokenised(encoder: Encoder, texts: Sequence[str], indices: NDArray[np.int64], side: Side) -> dict[int, list[int]]:
    """Token ids of the texts at `indices`, each once."""
    needed = np.unique(indices).tolist()
    return dict(zip(needed, encoder.tokenise([texts[index] for index in needed], side), strict=True))
