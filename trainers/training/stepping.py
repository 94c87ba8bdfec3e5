"""One optimiser step: embed a batch, its loss, the gradient, clipping, AdamW."""

import math
import time
from dataclasses import replace
from typing import NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from search_spaces.specs import Execution, ScaleSpec, TrainingSettings
from trainers.fisher.information import Point
from trainers.memory import peak_memory_bytes
from trainers.randomness import derived_seed
from trainers.training.batch_kappa import batch_log10_kappa
from trainers.training.batch_source import BatchSource
from trainers.training.chunks import Batch, Chunk, share_of
from trainers.training.diagnostics import (
    NUM_NORM_NUMBERS,
    SoftmaxNumbers,
    norm_numbers,
    norm_statistics,
    softmax_numbers,
)
from trainers.training.gradient_cache import ChunkedEncoder, EmbeddedChunks
from trainers.training.held_graphs import HeldGraphs
from trainers.training.history import StepNumbers
from trainers.training.objectives import Objective
from trainers.training.optimizer import set_learning_rates
from trainers.training.processes import Processes
from trainers.training.retriever import Retriever


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


class _Seen(NamedTuple):
    """What a step shows, on the device.

    `power` is the mean of |q|^(1 - gamma_q); `log10_kappa` is there in steps that log it.
    """

    loss: Tensor
    gamma_q: Tensor
    gamma_d: Tensor
    power: Tensor
    norms: Tensor
    softmax: Tensor
    log10_kappa: Tensor


class Stepper:
    """A retriever under training, with its optimiser, on the accelerator's device.

    Each process embeds its share of a batch's chunks; each then computes the whole loss, and its gradient at all
    embeddings, from what all of them embedded. So neither depends on how many processes there are.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        retriever: Retriever,
        batches: BatchSource,
        *,
        optimizer: Optimizer,
        objective: Objective,
        scale: ScaleSpec,
        settings: TrainingSettings,
        execution: Execution,
        seed: int,
        log_kappa_every: int | None = None,
    ) -> None:
        self.retriever = retriever.train()  # dropout on
        self.optimizer = optimizer
        self.processes = Processes(rank=accelerator.process_index, size=accelerator.num_processes)
        self._device = accelerator.device
        self._batches = batches
        self._objective = objective
        self._factor = scale.factor
        self._settings = settings
        self._seed = seed
        self._log_kappa_every = log_kappa_every
        self._chunked = ChunkedEncoder(retriever.encoder, accelerator.autocast)
        self._held = HeldGraphs(execution.chunk_size)
        self._weights = [weight for weight in retriever.parameters() if weight.requires_grad]

    def step(self, step: int) -> StepNumbers:
        """Take optimiser step `step` (1 is the first).

        Raises:
            DivergedError: the loss or its gradient is not finite.
        """
        begun = time.perf_counter()
        learning_rate = set_learning_rates(self.optimizer, step, self._settings)
        batch = self._batches.batch(step)
        embedded = self._embed(step, batch)
        logs_kappa = self._log_kappa_every is not None and step % self._log_kappa_every == 0
        seen = self._differentiate(batch, embedded, logs_kappa=logs_kappa)
        gradient_norm = clip_grad_norm_(self._weights, self._settings.clip_norm)
        # One transfer from the device, and the only wait for it.
        norm, *shown = torch.cat([gradient_norm.view(1), *(value.view(-1) for value in seen)]).tolist()
        if not math.isfinite(shown[0]):
            raise NonFiniteLossError(step, shown[0])
        if not math.isfinite(norm):
            raise NonFiniteGradientError(step, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        log10_kappa = shown.pop() if logs_kappa else math.nan
        numbers = self._numbers(step, learning_rate, norm, shown, batch, time.perf_counter() - begun)
        return replace(numbers, log10_kappa=log10_kappa) if math.isfinite(log10_kappa) else numbers

    def _embed(self, step: int, batch: Batch) -> EmbeddedChunks:
        mine = share_of(batch.chunks, self.processes.rank, self.processes.size)
        held = self._held.choose([batch.chunks[i] for i in mine], self.retriever, self._measured)
        # A chunk's dropout is its own in each step, the same on whatever process it runs, and the same when run again.
        seeds = [derived_seed(self._seed, "dropout", step, index) for index in mine]
        embedded = self._chunked.embed(batch, mine, held, seeds)
        self.processes.add_up(embedded.value_NH)  # rows that others embedded are 0 here
        return embedded

    def _measured(self, chunk: Chunk) -> Tensor:
        return self._chunked.run(chunk, seed=0)

    def _differentiate(self, batch: Batch, embedded: EmbeddedChunks, *, logs_kappa: bool) -> _Seen:
        """Leave in the weights the gradient of the whole batch's loss."""
        value_NH = embedded.value_NH.requires_grad_()
        gammas = self.retriever.gammas.values()
        query_QH, document_DH = value_NH.split([batch.num_queries, batch.num_documents])
        target = batch.target.to(value_NH.device)
        scored = self._objective(query_QH, document_DH, target, gammas)
        # Every process has the whole gradient at the gammas already: what is added up below are encoder weights.
        scored.loss.backward()
        assert value_NH.grad is not None, "every objective depends on the embeddings"
        embedded.backward(value_NH.grad)
        self.processes.add_up_gradients(self.retriever.encoder.parameters())
        with torch.no_grad():
            power = torch.linalg.vector_norm(query_QH, dim=-1).pow(1 - gammas[0]).mean()
        norms = norm_statistics(query_QH, document_DH)
        gamma_q, gamma_d = (gamma.detach() for gamma in gammas)
        kappa = norms.new_empty(0)
        if logs_kappa:
            point = Point(gamma_q=gamma_q.item(), gamma_d=gamma_d.item(), scale=self._factor)
            kappa = batch_log10_kappa(query_QH, document_DH, target, point)
        return _Seen(scored.loss.detach(), gamma_q, gamma_d, power, norms, scored.softmax, kappa)

    def _numbers(
        self, step: int, learning_rate: float, gradient_norm: float, shown: list[float], batch: Batch, wall_s: float
    ) -> StepNumbers:
        loss, gamma_q, gamma_d, power, *rest = shown
        softmax = softmax_numbers(rest[NUM_NORM_NUMBERS:]) if len(rest) > NUM_NORM_NUMBERS else None
        return StepNumbers(
            step=step,
            loss=loss,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            gamma_q=gamma_q,
            gamma_d=gamma_d,
            effective_temperature=1 / (self._factor * power) if softmax and power else None,
            **vars(norm_numbers(rest[:NUM_NORM_NUMBERS])),
            **(vars(softmax) if softmax else _NO_SOFTMAX),
            pairs_per_s=batch.num_queries / wall_s,
            tokens_per_s=batch.num_tokens / wall_s,
            padding_share=batch.padding_share,
            peak_memory_bytes=peak_memory_bytes(self._device),
        )


_NO_SOFTMAX = dict.fromkeys(SoftmaxNumbers.__dataclass_fields__)
