"""The batches of a training, by step: planned before it starts, their texts tokenised once for all trials.

Suffixes: S steps, B pairs of a batch, K hard negatives of a query.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from search_spaces.specs import DataSpec, Task, TrainingSettings
from trainers.arrays import Indices
from trainers.encoders.encoder import Encoder, Side
from trainers.training.batches import false_negatives, plan_batches
from trainers.training.chunks import Batch, make_batch
from trainers.training.pairs import load_pairs
from trainers.training.sts_pairs import SIDE, load_scored_pairs, plan_scored_batches
from trainers.training.token_store import TokenisedTexts, tokenised


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One batch by the places of its texts among all texts of their side, and its target (see `objectives`)."""

    query_B: Indices
    document_D: Indices
    target: Tensor


class BatchSource:
    """All batches of one training.

    Attributes:
        query_texts: all texts of the query side, without prompts, in an order that content decides.
        document_texts: those that take the document's part.
        document_side: the side that they are encoded on.
        num_truncated_queries: how many of them are longer than the maximum length.
        num_truncated_documents: likewise.
        num_random_negatives: as in `TrainResult`.
    """

    def __init__(
        self,
        encoder: Encoder,
        query_texts: Sequence[str],
        document_texts: Sequence[str],
        planned: Callable[[int], Planned],
        chunk_tokens: int,
        *,
        document_side: Side = "document",
        num_random_negatives: int | None = None,
    ) -> None:
        self.query_texts, self.document_texts = query_texts, document_texts
        self.document_side = document_side
        self.num_random_negatives = num_random_negatives
        self._encoder = encoder
        self._planned = planned
        self._chunk_tokens = chunk_tokens
        self._queries: TokenisedTexts = tokenised(encoder, query_texts, "query")
        self._documents: TokenisedTexts = tokenised(encoder, document_texts, document_side)
        self.num_truncated_queries = self._queries.num_truncated
        self.num_truncated_documents = self._documents.num_truncated

    def batch(self, step: int) -> Batch:
        """The batch of optimiser step `step` (1 is the first), on the CPU."""
        planned = self._planned(step - 1)
        return make_batch(
            self._encoder,
            [self._queries.ids(index) for index in planned.query_B.tolist()],
            [self._documents.ids(index) for index in planned.document_D.tolist()],
            planned.target,
            chunk_tokens=self._chunk_tokens,
            document_side=self.document_side,
        )


def batches_of(
    task: Task, data: DataSpec, settings: TrainingSettings, seed: int, encoder: Encoder, chunk_tokens: int
) -> BatchSource:
    """The batches of a task's training.

    Raises:
        InputError: the data cannot be read.
        ValueError: there are fewer different queries (or pairs) than a batch has.
    """
    source = _contrastive if task == "contrastive" else _scored
    return source(data, settings, seed, encoder, chunk_tokens)


def _contrastive(
    data: DataSpec, settings: TrainingSettings, seed: int, encoder: Encoder, chunk_tokens: int
) -> BatchSource:
    pairs = load_pairs(data, hard_negatives=settings.hard_negatives)
    plan = plan_batches(
        pairs,
        global_batch=settings.global_batch,
        steps=settings.steps,
        seed=seed,
        hard_negatives=settings.hard_negatives,
    )

    def planned(place: int) -> Planned:
        pair_B, negative_BK = plan.pair_SB[place], plan.negative_SBK[place]
        return Planned(
            query_B=pairs.query_index[pair_B],
            document_D=np.concatenate([pairs.document_index[pair_B], negative_BK.ravel()]),
            target=torch.from_numpy(false_negatives(pairs, pair_B, negative_BK)),
        )

    num_random = plan.num_random if settings.hard_negatives else None
    return BatchSource(
        encoder, pairs.query_texts, pairs.document_texts, planned, chunk_tokens, num_random_negatives=num_random
    )


def _scored(data: DataSpec, settings: TrainingSettings, seed: int, encoder: Encoder, chunk_tokens: int) -> BatchSource:
    pairs = load_scored_pairs(data)
    plan_SB = plan_scored_batches(pairs, global_batch=settings.global_batch, steps=settings.steps, seed=seed)

    def planned(place: int) -> Planned:
        pair_B = plan_SB[place]
        return Planned(query_B=pair_B, document_D=pair_B, target=torch.from_numpy(pairs.gold[pair_B]))

    return BatchSource(encoder, pairs.first_texts, pairs.second_texts, planned, chunk_tokens, document_side=SIDE)
