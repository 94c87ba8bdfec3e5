"""What a batch's embeddings are held against: a loss and what it shows, one objective for each task.

Shapes: Q queries, D documents, B pairs of a batch, H embedding size.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from search_spaces.specs import ScaleSpec, Task, TrainingSettings
from trainers.training.diagnostics import softmax_statistics
from trainers.training.losses import info_nce
from trainers.training.sts_loss import sts_loss

Gammas = tuple[Tensor, Tensor]


class Scored(NamedTuple):
    """The loss, with a gradient, and the numbers of `diagnostics.SoftmaxNumbers` (none where there is no softmax)."""

    loss: Tensor
    softmax: Tensor


class Objective(Protocol):
    """A loss of raw float32 embeddings. `target` is what `batch_source` puts into a batch for this objective."""

    def __call__(self, query_QH: Tensor, document_DH: Tensor, target: Tensor, gammas: Gammas) -> Scored:
        """Score a batch."""


class Contrastive:
    """InfoNCE; the target is the mask of documents that are no negatives, bool [Q, D]."""

    def __init__(self, scale: ScaleSpec, settings: TrainingSettings) -> None:
        self._factor = scale.factor
        self._directions = settings.loss_directions

    def __call__(self, query_QH: Tensor, document_DH: Tensor, target: Tensor, gammas: Gammas) -> Scored:
        """Score a batch."""
        scored = info_nce(
            query_QH,
            document_DH,
            masked_QD=target,
            gammas=gammas,
            factor=self._factor,
            directions=self._directions,
        )
        return Scored(scored.loss, softmax_statistics(scored.logits_QD, self._factor))


class Regression:
    """Mean squared error of scores; the target is the gold score of each pair, float32 [B], 0 to 1."""

    def __init__(self, scale: ScaleSpec) -> None:
        self._factor = scale.factor

    def __call__(self, query_QH: Tensor, document_DH: Tensor, target: Tensor, gammas: Gammas) -> Scored:
        """Score a batch."""
        loss = sts_loss(query_QH, document_DH, target, gammas=gammas, factor=self._factor)
        return Scored(loss, torch.empty(0, device=loss.device))


def objective_of(task: Task, scale: ScaleSpec, settings: TrainingSettings) -> Objective:
    """The objective of a task. Raises ValueError for a matched scale whose divisor is not known."""
    return Contrastive(scale, settings) if task == "contrastive" else Regression(scale)
