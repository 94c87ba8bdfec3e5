"""Train one trial: planned batches, then steps with exact resume, validated where the spec asks for it.

A killed and resumed training gives the history and checkpoint of an undisturbed one to the last bit, and so does a
process that trained something else before; for equal threads, precision, device type and package versions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from results.store import Store
from search_spaces.identity import prefix_id
from search_spaces.identity import trial_id as identity_of
from search_spaces.specs import DataSpec, ScaleSpec, SimilaritySpec, TrainingSettings, TrialSpec
from trainers.encoders.adapters import with_lora
from trainers.encoders.dropout import use_fast_dropout
from trainers.encoders.embedding_gradient import use_adding_embeddings
from trainers.init_regimes import start_encoder
from trainers.memory import reset_peak
from trainers.randomness import seed_all
from trainers.similarity import Gammas
from trainers.training.accelerators import fresh_accelerator
from trainers.training.batch_source import BatchSource, batches_of
from trainers.training.chunks import CHUNK_TOKENS
from trainers.training.history import Report, StepReport
from trainers.training.keeping import Keeper
from trainers.training.matched_scale import with_divisor
from trainers.training.objectives import objective_of
from trainers.training.optimizer import make_optimizer
from trainers.training.resume import CheckpointPolicy, Progress
from trainers.training.retriever import Retriever
from trainers.training.stepping import Stepper
from trainers.training.train_result import TrainResult
from trainers.training.validation import Validator


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
        """Raise ValueError where `spec` does not describe a training."""
        data, similarity, scale, settings = spec.training_data, spec.similarity, spec.scale, spec.training
        if not spec.is_trained:
            raise ValueError(f"{spec.title}: kind '{spec.kind}' is no training")
        if data is None or similarity is None or scale is None or spec.seed is None or settings is None:
            raise ValueError(f"{spec.title}: the spec lacks training data, similarity, scale, seed or settings")
        return cls(data=data, similarity=similarity, scale=scale, seed=spec.seed, settings=settings)


@dataclass(frozen=True, kw_only=True)
class _Training:
    """What a training is made of, in one of its processes, and how far it had come when it was built."""

    recipe: Recipe
    batches: BatchSource
    stepper: Stepper
    validator: Validator
    keeper: Keeper
    progress: Progress


def train(
    spec: TrialSpec, *, store: Store, report: Report, verify: Callable[[], None], checkpoint_policy: CheckpointPolicy
) -> TrainResult:
    """Train the trial, going on from its newest training checkpoint, and publish its final checkpoint.

    Under a launch with several processes each of them calls this; the first alone reports and writes. Whatever `report`
    raises ends the training; the next attempt goes on from the last training checkpoint.

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
    training = _build(spec, store, verify)
    settings, keeper, progress = training.recipe.settings, training.keeper, training.progress
    begun -= progress.wall_s  # as if the earlier attempts had run just before
    if training.stepper.processes.is_first:
        keeper.take_over(progress)
    saved = time.monotonic()

    while not _is_over(progress, training):
        numbers = training.stepper.step(progress.step + 1)
        numbers = replace(numbers, validation_score=training.validator.score(numbers.step))
        progress = progress.after(numbers, wall_s=time.monotonic() - begun)
        if not training.stepper.processes.is_first:
            continue
        if progress.best is numbers:
            keeper.write_best(progress)
        report(StepReport(trial_id=keeper.trial_id, numbers=numbers, num_steps=settings.steps))
        if checkpoint_policy.is_due(progress.step, time.monotonic() - saved) and not _is_over(progress, training):
            keeper.write(progress)
            saved = time.monotonic()

    if training.stepper.processes.is_first:
        keeper.write_end(progress)  # before the weights become the best ones
        keeper.publish(progress, training.recipe.similarity)
    training.stepper.processes.wait_for_all()
    return _result(progress, time.monotonic() - begun, training, spec.num_negatives)


def _build(spec: TrialSpec, store: Store, verify: Callable[[], None]) -> _Training:
    recipe, execution = Recipe.of(spec), spec.execution
    settings = recipe.settings
    seed_all(recipe.seed)
    accelerator = fresh_accelerator(execution.device, settings.precision, num_devices=execution.num_devices)
    retriever = _starting_retriever(spec, recipe).to(accelerator.device)
    chunk_tokens = CHUNK_TOKENS[accelerator.device.type]
    batches = batches_of(spec.task, recipe.data, settings, recipe.seed, retriever.encoder, chunk_tokens)
    optimizer = make_optimizer(retriever, settings)
    keeper = Keeper(
        store=store,
        trial_id=identity_of(spec),
        prefix_id=prefix_id(spec),
        num_steps=settings.steps,
        retriever=retriever,
        optimizer=optimizer,
        verify=verify,
    )
    # The divisor of a matched scale is the starting weights', so it is found before any checkpoint is loaded, or kept.
    progress = keeper.resume() or Progress(
        scale=with_divisor(recipe.scale, retriever.encoder, retriever.gammas, batches, settings.precision)
    )
    stepper = Stepper(
        accelerator,
        retriever,
        batches,
        optimizer=optimizer,
        objective=objective_of(spec.task, progress.scale, settings),
        scale=progress.scale,
        settings=settings,
        execution=execution,
        seed=recipe.seed,
        log_kappa_every=spec.log_kappa_every,
    )
    # A pilot is scored once it has ended, query by query.
    validation = None if spec.kind == "pilot" else spec.validation
    validator = Validator(validation, spec.task, retriever, stepper.processes, settings.precision)
    return _Training(
        recipe=recipe, batches=batches, stepper=stepper, validator=validator, keeper=keeper, progress=progress
    )


def _starting_retriever(spec: TrialSpec, recipe: Recipe) -> Retriever:
    encoder, settings = start_encoder(spec.encoder, recipe.seed), recipe.settings
    if settings.lora_rank is not None:
        encoder = with_lora(
            encoder,
            rank=settings.lora_rank,
            alpha=settings.lora_alpha,
            dropout=settings.lora_dropout,
            seed=recipe.seed,
        )
    use_fast_dropout(encoder)
    use_adding_embeddings(encoder)
    if spec.execution.torch_compile:
        encoder.compile_backbones()
    encoder.instruct(recipe.data.entry.instruction)
    return Retriever(encoder, Gammas.from_spec(recipe.similarity))


def _is_over(progress: Progress, training: _Training) -> bool:
    """After the last step, or as many validations without a better score as the spec has patience for."""
    return progress.step >= training.recipe.settings.steps or training.validator.is_out_of_patience(progress)


def _result(progress: Progress, wall_s: float, training: _Training, num_negatives: int | None) -> TrainResult:
    batches = training.batches
    gamma_q, gamma_d = (gamma.item() for gamma in training.keeper.retriever.gammas.values())
    return TrainResult(
        history=tuple(progress.history),
        wall_s=wall_s,
        num_negatives=num_negatives,
        num_random_negatives=batches.num_random_negatives,
        num_queries=len(batches.query_texts),
        num_documents=len(batches.document_texts),
        num_truncated_queries=batches.num_truncated_queries,
        num_truncated_documents=batches.num_truncated_documents,
        scale_divisor=progress.scale.divisor,
        gammas=(gamma_q, gamma_d),
        best_step=progress.best.step if progress.best else None,
    )
