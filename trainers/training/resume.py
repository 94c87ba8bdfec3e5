"""Training checkpoints: all that an interrupted training needs to go on to the same last bit. No pickle.

A folder holds model.safetensors (what is trained of encoder and gammas), optimizer.safetensors, history.parquet and
training_state.json. There is no random state to keep: batches are planned and dropout is seeded by step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from results.layout import best_prefix, step_prefix
from results.schemas import check_table, make_table
from results.store import Store
from search_spaces.specs import ScaleSpec
from trainers.encoders.adapters import load_trainable_state, trainable_state
from trainers.training.history import StepNumbers, from_history_row, history_row
from trainers.training.retriever import Retriever

FORMAT_VERSION = 1
MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"
_HISTORY, _STATE = "history.parquet", "training_state.json"


@dataclass(frozen=True, kw_only=True)
class CheckpointPolicy:
    """When a training writes a checkpoint to resume from: every so many steps, or seconds; None is never."""

    every_steps: int | None = None
    every_s: float | None = None

    def is_due(self, step: int, seconds_since_last: float) -> bool:
        """Whether to write one after optimiser step `step`."""
        by_steps = self.every_steps is not None and step % self.every_steps == 0
        return by_steps or (self.every_s is not None and seconds_since_last >= self.every_s)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training has come, over all attempts whose work is kept.

    `wall_s` is the wall time of the training; of an earlier attempt, up to the checkpoint that the next went on from.
    `scale` is the one trained with, its divisor found.
    """

    scale: ScaleSpec
    history: list[StepNumbers] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def step(self) -> int:
        """The last finished optimiser step, 0 before the first."""
        return len(self.history)

    @property
    def best(self) -> StepNumbers | None:
        """The step with the highest validation score, the first of equal ones; None before the first validation."""
        validated = [(n.validation_score, n) for n in self.history if n.validation_score is not None]
        return max(validated, key=lambda scored: scored[0], default=(None, None))[1]

    @property
    def peak_memory_bytes(self) -> int | None:
        """The highest that a step saw."""
        peaks = [numbers.peak_memory_bytes for numbers in self.history if numbers.peak_memory_bytes is not None]
        return max(peaks, default=None)

    def after(self, numbers: StepNumbers, *, wall_s: float) -> "Progress":
        """The progress after one more step; the history is the same list, longer."""
        self.history.append(numbers)
        return Progress(scale=self.scale, history=self.history, wall_s=wall_s)


@dataclass(frozen=True, kw_only=True)
class _State:
    """What training_state.json holds."""

    format_version: int
    scale: ScaleSpec
    wall_s: float


_STATES = TypeAdapter(_State)


def write_training_checkpoint(
    store: Store, trial_id: str, retriever: Retriever, optimizer: Optimizer, progress: Progress
) -> None:
    """Publish the training as it stands, whole or not at all, then remove older ones."""
    older = steps_with_checkpoints(store, trial_id)
    store.put_folder(
        step_prefix(trial_id, progress.step),
        lambda folder: save_training(folder, trial_id, retriever, optimizer, progress),
    )
    for step in older:
        if step != progress.step:
            store.delete(step_prefix(trial_id, step))


def resume_training(store: Store, trial_id: str, retriever: Retriever, optimizer: Optimizer) -> Progress | None:
    """Go on from the trial's newest checkpoint: weights and optimiser are set in place.

    Where there is none, nothing is changed and None is returned.
    """
    steps = steps_with_checkpoints(store, trial_id)
    if not steps:
        return None
    with store.get_folder(step_prefix(trial_id, steps[-1])) as folder:
        return load_training(folder, retriever, optimizer)


def remove_training_checkpoints(store: Store, trial_id: str) -> None:
    """Remove all of the trial's training checkpoints, and the best weights beside them."""
    store.delete(_steps_folder(trial_id))
    store.delete(_best_folder(trial_id))


def steps_with_checkpoints(store: Store, trial_id: str) -> list[int]:
    """The steps after which the trial has a checkpoint to resume from, ascending."""
    folder = _steps_folder(trial_id)
    return sorted({int(key.removeprefix(f"{folder}/").partition("/")[0]) for key in store.list(folder)})


def save_training(folder: Path, trial_id: str, retriever: Retriever, optimizer: Optimizer, progress: Progress) -> None:
    """Write a training into an empty folder."""
    save_weights(folder, retriever)
    save_file(_optimizer_tensors(retriever, optimizer), folder / _OPTIMIZER)
    rows = [history_row(trial_id, numbers) for numbers in progress.history]
    pq.write_table(make_table("history", rows), folder / _HISTORY)
    state = _State(
        format_version=FORMAT_VERSION,
        scale=progress.scale,
        wall_s=progress.wall_s,
    )
    (folder / _STATE).write_bytes(_STATES.dump_json(state))


def load_training(folder: Path, retriever: Retriever, optimizer: Optimizer) -> Progress:
    """Set weights and optimiser in place, and return how far the training had come.

    Raises:
        ValueError: another version's checkpoint, or another model's.
    """
    state = _STATES.validate_json((folder / _STATE).read_bytes())
    if state.format_version != FORMAT_VERSION:
        raise ValueError(f"{folder / _STATE}: format version {state.format_version}, where {FORMAT_VERSION} is read")
    load_weights(folder, retriever)
    _set_optimizer_tensors(retriever, optimizer, load_file(folder / _OPTIMIZER))
    rows = check_table("history", pq.read_table(folder / _HISTORY)).to_pylist()
    return Progress(scale=state.scale, history=[from_history_row(row) for row in rows], wall_s=state.wall_s)


def save_weights(folder: Path, retriever: Retriever) -> None:
    """Write what is trained into a folder."""
    save_file({name: tensor.contiguous() for name, tensor in trainable_state(retriever).items()}, folder / MODEL)


def load_weights(folder: Path, retriever: Retriever) -> None:
    """Set what is trained, in place, to the last bit. Raises ValueError where the folder holds another model's."""
    load_trainable_state(retriever, load_file(folder / MODEL))


def write_best(store: Store, trial_id: str, retriever: Retriever, step: int) -> None:
    """Publish the weights after `step` as the best so far. Older ones stay until `remove_older_best`."""
    # Of this step there may be those of an attempt that died before its next training checkpoint, perhaps under other
    # threads or chunks: the best weights and the history that they are the best of come from one attempt.
    store.delete(best_prefix(trial_id, step))
    store.put_folder(best_prefix(trial_id, step), lambda folder: save_weights(folder, retriever))


def load_best(store: Store, trial_id: str, retriever: Retriever, step: int) -> None:
    """Set the weights to those that `write_best` kept."""
    with store.get_folder(best_prefix(trial_id, step)) as folder:
        load_weights(folder, retriever)


def remove_older_best(store: Store, trial_id: str, best_step: int) -> None:
    """Remove best weights but those of `best_step`: only when no training checkpoint refers to them any more."""
    folder = _best_folder(trial_id)
    for step in {int(key.removeprefix(f"{folder}/").partition("/")[0]) for key in store.list(folder)} - {best_step}:
        store.delete(best_prefix(trial_id, step))


def _optimizer_tensors(retriever: Retriever, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as 'WEIGHT/KEY'; weights that never had a gradient have none."""
    return {
        f"{name}/{key}": value.contiguous()
        for name, weight in retriever.named_parameters()
        for key, value in optimizer.state.get(weight, {}).items()
    }


def _set_optimizer_tensors(retriever: Retriever, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    weights: dict[str, Any] = dict(retriever.named_parameters())
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition("/")
        weight = weights[name]
        optimizer.state[weight][key] = value.to(weight.device)  # a fused AdamW keeps even its step count there


def _best_folder(trial_id: str) -> str:
    return best_prefix(trial_id, 0).rpartition("/")[0]


def _steps_folder(trial_id: str) -> str:
    return step_prefix(trial_id, 0).rpartition("/")[0]
