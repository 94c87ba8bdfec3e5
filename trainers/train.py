"""Train one trial: pairs, planned batches, then InfoNCE steps with exact resume.

A killed and resumed training gives the history and checkpoint of an undisturbed one to the last bit, and so does a
process that trained something else before; for equal threads, precision, device type and package versions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.layout import checkpoint_prefix
from results.store import Store
from search_spaces.identity import trial_id as identity_of
from search_spaces.specs import DataSpec, ScaleSpec, SimilaritySpec, TrainingSettings, TrialSpec
from trainers.accelerators import fresh_accelerator
from trainers.batch_tensors import tokenised_batches
from trainers.batches import plan_batches
from trainers.checkpoints import save_checkpoint
from trainers.history import Report, StepNumbers, StepReport
from trainers.init_regimes import start_encoder
from trainers.memory import peak_rss_bytes, reset_peak
from trainers.pairs import TrainingPairs, load_pairs
from trainers.randomness import seed_all
from trainers.resume import CheckpointPolicy, Progress, resume_training, write_training_checkpoint
from trainers.retriever import Retriever
from trainers.similarity import Gammas
from trainers.stepping import Stepper


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a training gave, besides its checkpoint.

    Attributes:
        history: one entry for each step, those of earlier attempts included.
        wall_s: wall time of the training, loading, tokenising and checkpoints included. Of an interrupted attempt it
            counts the time up to the checkpoint that the next one went on from: steps that were lost count once.
        pairs_per_s: pairs over the wall time of the optimiser steps alone.
        peak_rss_bytes: resident memory, the highest of all attempts; None where the system does not tell.
        num_negatives: per query, duplicates of its positive counted.
        gammas: (gamma_q, gamma_d) at the end.
    """

    history: tuple[StepNumbers, ...]
    wall_s: float
    pairs_per_s: float
    peak_rss_bytes: int | None
    num_negatives: int
    gammas: tuple[float, float]

    @property
    def final_loss(self) -> float:
        """The loss of the last step's batch."""
        return self.history[-1].loss


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The parts of a spec that every training needs."""

    data: DataSpec
    similarity: SimilaritySpec
    scale: ScaleSpec
    seed: int
    settings: TrainingSettings

    @classmethod
    def of(cls, spec: TrialSpec) -> "Recipe":
        """Raise ValueError where `spec` does not describe a contrastive training."""
        data, similarity, scale, settings = spec.training_data, spec.similarity, spec.scale, spec.training
        if spec.kind != "train" or spec.task != "contrastive":
            raise ValueError(f"{spec.title}: kind '{spec.kind}' and task '{spec.task}' are no contrastive training")
        if data is None or similarity is None or scale is None or spec.seed is None or settings is None:
            raise ValueError(f"{spec.title}: the spec lacks training data, similarity, scale, seed or settings")
        return cls(data=data, similarity=similarity, scale=scale, seed=spec.seed, settings=settings)


def train(
    spec: TrialSpec, *, store: Store, report: Report, verify: Callable[[], None], checkpoint_policy: CheckpointPolicy
) -> TrainResult:
    """Train the trial, going on from its newest training checkpoint, and publish its final checkpoint.

    Whatever `report` raises ends the training; the next attempt goes on from the last training checkpoint.

    Args:
        spec: a trained trial with all content hashes.
        store: the sweep folder.
        report: called after each step.
        verify: called before each write; raises where this process may write no more.
        checkpoint_policy: when to write a training checkpoint; the newest is kept.

    Raises:
        DivergedError: the loss or its gradient is not finite.
        ValueError: the spec, its data or the device does not allow this training.
    """
    begun = time.monotonic()
    reset_peak()
    recipe, trial_id = Recipe.of(spec), identity_of(spec)
    pairs = load_pairs(recipe.data)
    seed_all(recipe.seed)
    accelerator = fresh_accelerator(spec.device, recipe.settings.precision)
    retriever = Retriever(start_encoder(spec.encoder, recipe.seed), Gammas.from_spec(recipe.similarity))
    stepper = Stepper(accelerator, retriever, recipe.settings, recipe.scale)
    progress = resume_training(store, trial_id, retriever, stepper.optimizer)
    begun -= progress.wall_s  # as if the earlier attempts had run just before
    saved = time.monotonic()

    for batch in tokenised_batches(retriever.encoder, pairs, _plan(pairs, recipe)[progress.step :]):
        numbers = stepper.step(progress.step + 1, batch)
        progress = progress.after(numbers, wall_s=time.monotonic() - begun, peak_rss_bytes=peak_rss_bytes())
        report(StepReport(trial_id=trial_id, numbers=numbers, num_steps=recipe.settings.steps))
        is_last = progress.step == recipe.settings.steps
        if not is_last and checkpoint_policy.is_due(progress.step, time.monotonic() - saved):
            verify()
            write_training_checkpoint(store, trial_id, retriever, stepper.optimizer, progress)
            saved = time.monotonic()

    verify()
    _publish_checkpoint(store, trial_id, retriever, recipe)
    return _result(progress, time.monotonic() - begun, recipe, retriever)


def _plan(pairs: TrainingPairs, recipe: Recipe) -> NDArray[np.int64]:
    settings = recipe.settings
    return plan_batches(pairs, global_batch=settings.global_batch, steps=settings.steps, seed=recipe.seed)


def _publish_checkpoint(store: Store, trial_id: str, retriever: Retriever, recipe: Recipe) -> None:
    prefix = checkpoint_prefix(trial_id)
    # One without rows is of an attempt that died before it wrote them, perhaps under other threads: history and
    # checkpoint come from one attempt.
    store.delete(prefix)
    store.put_folder(
        prefix,
        lambda folder: save_checkpoint(
            folder, retriever.encoder, gammas=retriever.gammas, similarity=recipe.similarity, scale=recipe.scale
        ),
    )


def _result(progress: Progress, wall_s: float, recipe: Recipe, retriever: Retriever) -> TrainResult:
    batch = recipe.settings.global_batch
    steps_s = sum(batch / numbers.pairs_per_s for numbers in progress.history)
    gamma_q, gamma_d = (gamma.item() for gamma in retriever.gammas.values())
    return TrainResult(
        history=tuple(progress.history),
        wall_s=wall_s,
        pairs_per_s=batch * progress.step / steps_s,
        peak_rss_bytes=progress.peak_rss_bytes,
        num_negatives=batch - 1,
        gammas=(gamma_q, gamma_d),
    )
