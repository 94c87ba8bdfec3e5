"""One optimiser step: embed a batch, InfoNCE, gradient, clipping, AdamW."""

import math
import time

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.optim import Optimizer

from search_spaces.specs import ScaleSpec, TrainingSettings
from trainers.batch_tensors import Batch
from trainers.history import StepNumbers
from trainers.losses import InfoNCE, info_nce
from trainers.optimizer import make_optimizer, set_learning_rates
from trainers.retriever import Embedded, Retriever


class DivergedError(ArithmeticError):
    """A number of the training is no longer finite; the weights were not updated with it."""


class NonFiniteLossError(DivergedError):
    """The loss is nan or infinite."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(f"loss became {loss} at step {step}")


class NonFiniteGradientError(DivergedError):
    """The loss is finite, its gradient is not."""

    def __init__(self, step: int, norm: float) -> None:
        super().__init__(f"gradient norm became {norm} at step {step}")


class Stepper:
    """A retriever under training, with its optimiser, on the accelerator's device."""

    def __init__(
        self, accelerator: Accelerator, retriever: Retriever, settings: TrainingSettings, scale: ScaleSpec
    ) -> None:
        self._accelerator = accelerator
        self._settings = settings
        self._scale = scale.value
        self.retriever = retriever.train()  # dropout on
        self._model, prepared = accelerator.prepare(retriever, make_optimizer(retriever, settings))
        self.optimizer: Optimizer = prepared

    def step(self, step: int, batch: Batch) -> StepNumbers:
        """Take optimiser step `step` (1 is the first).

        Raises:
            DivergedError: the loss or its gradient is not finite.
        """
        begun = time.perf_counter()
        learning_rate = set_learning_rates(self.optimizer, step, self._settings)
        placed = batch.to(self._accelerator.device)
        embedded: Embedded = self._model(placed.query, placed.document)
        gammas = (embedded.gamma_q, embedded.gamma_d)
        scored = info_nce(embedded.query, embedded.document, masked_QD=placed.masked, gammas=gammas, scale=self._scale)
        loss, query_mean, query_std, document_mean, document_std, gamma_q, gamma_d = _on_host(scored, gammas)
        if not math.isfinite(loss):
            raise NonFiniteLossError(step, loss)
        gradient_norm = self._descend(step, scored.loss)
        return StepNumbers(
            step=step,
            loss=loss,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            query_norm_mean=query_mean,
            query_norm_std=query_std,
            document_norm_mean=document_mean,
            document_norm_std=document_std,
            gamma_q=gamma_q,
            gamma_d=gamma_d,
            pairs_per_s=batch.num_pairs / (time.perf_counter() - begun),
        )

    def _descend(self, step: int, loss: Tensor) -> float:
        """Update the weights; returns the gradient's norm before clipping."""
        self._accelerator.backward(loss)
        norm = float(self._accelerator.clip_grad_norm_(self._model.parameters(), self._settings.clip_norm))
        if not math.isfinite(norm):
            raise NonFiniteGradientError(step, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm


def _on_host(scored: InfoNCE, gammas: tuple[Tensor, Tensor]) -> list[float]:
    """Loss, norm statistics and gammas in one transfer from the device."""
    return torch.stack([value.detach() for value in (scored.loss, *scored.norms, *gammas)]).tolist()
