"""What a training gave, besides its checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainers.training.history import StepNumbers

NUM_LAST_STEPS = 10  # one batch says little: what stands for the end of a training is the mean over so many steps


@dataclass(frozen=True, kw_only=True)
class SoftmaxState:
    """What the softmax looked like at one end of a training: see `diagnostics.SoftmaxNumbers`. None: there is none."""

    logit_std: float | None
    perplexity: float | None
    saturated_share: float | None


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a training gave, besides its checkpoint.

    Attributes:
        history: one entry for each step, those of earlier attempts included.
        wall_s: wall time of the training, loading, tokenising and checkpoints included. Of an interrupted attempt it
            counts the time up to the checkpoint that the next one went on from: steps that were lost count once.
        num_negatives: per query, masked ones counted; None where the task has none.
        num_random_negatives: how many hard negatives of the planned batches are random documents, since their query has
            too few; None where no hard negatives are asked for.
        num_queries: different training texts of that side.
        num_documents: likewise.
        num_truncated_queries: how many of them are longer than the maximum length, and were cut.
        num_truncated_documents: likewise.
        scale_divisor: of a matched scale.
        gammas: (gamma_q, gamma_d) of the checkpoint.
        best_step: the checkpoint's step where the training was validated.
    """

    history: tuple[StepNumbers, ...]
    wall_s: float
    num_negatives: int | None
    num_random_negatives: int | None
    num_queries: int
    num_documents: int
    num_truncated_queries: int
    num_truncated_documents: int
    scale_divisor: float | None
    gammas: tuple[float, float]
    best_step: int | None

    @property
    def final_loss(self) -> float:
        """The loss of the last step's batch."""
        return self.history[-1].loss

    @property
    def validation_score(self) -> float | None:
        """That of the checkpoint, 0 to 1."""
        return None if self.best_step is None else self.history[self.best_step - 1].validation_score

    @property
    def pairs_per_s(self) -> float:
        """Pairs over the wall time of the optimiser steps alone."""
        return _rate([step.pairs_per_s for step in self.history])

    @property
    def tokens_per_s(self) -> float:
        """Tokens that are no pads, over the same time."""
        seconds = [1 / step.pairs_per_s for step in self.history]  # of one pair: batches are of one size
        tokens = [step.tokens_per_s * duration for step, duration in zip(self.history, seconds, strict=True)]
        return sum(tokens) / sum(seconds)

    @property
    def padding_share(self) -> float:
        """Mean over the steps."""
        return sum(step.padding_share for step in self.history) / len(self.history)

    @property
    def peak_memory_bytes(self) -> int | None:
        """The highest that a step saw."""
        return max((s.peak_memory_bytes for s in self.history if s.peak_memory_bytes is not None), default=None)

    @property
    def start(self) -> SoftmaxState:
        """In the first step, before any update."""
        return _softmax_state(self.history[:1])

    @property
    def end(self) -> SoftmaxState:
        """The mean over the last NUM_LAST_STEPS steps."""
        return _softmax_state(self.history[-NUM_LAST_STEPS:])


def _rate(rates: Sequence[float]) -> float:
    return len(rates) / sum(1 / rate for rate in rates)


def _softmax_state(steps: Sequence[StepNumbers]) -> SoftmaxState:
    def mean(name: str) -> float | None:
        values = [getattr(step, name) for step in steps]
        return None if None in values else sum(values) / len(values)

    return SoftmaxState(
        logit_std=mean("logit_std"), perplexity=mean("perplexity"), saturated_share=mean("saturated_share")
    )
