"""Training checkpoints: all that an interrupted training needs to go on to the same last bit. No pickle.

A folder holds model.safetensors (encoder and gammas), optimizer.safetensors, random.safetensors, history.parquet and
training_state.json.
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

from results.layout import step_prefix
from results.schemas import check_table, make_table
from results.store import Store
from trainers.history import StepNumbers, from_history_row, history_row
from trainers.randomness import (
    RandomStates,
    random_states,
    restore_random_states,
    restore_torch_random_states,
    torch_random_states,
)
from trainers.retriever import Retriever

FORMAT_VERSION = 1
_MODEL, _OPTIMIZER, _RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
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
    """

    history: list[StepNumbers] = field(default_factory=list)
    wall_s: float = 0.0
    peak_rss_bytes: int | None = None

    @property
    def step(self) -> int:
        """The last finished optimiser step, 0 before the first."""
        return len(self.history)

    def after(self, numbers: StepNumbers, *, wall_s: float, peak_rss_bytes: int | None) -> "Progress":
        """The progress after one more step; the history is the same list, longer."""
        self.history.append(numbers)
        peaks = [peak for peak in (self.peak_rss_bytes, peak_rss_bytes) if peak is not None]
        return Progress(history=self.history, wall_s=wall_s, peak_rss_bytes=max(peaks, default=None))


@dataclass(frozen=True, kw_only=True)
class _State:
    """What training_state.json holds."""

    format_version: int
    wall_s: float
    peak_rss_bytes: int | None
    random_states: RandomStates


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


def resume_training(store: Store, trial_id: str, retriever: Retriever, optimizer: Optimizer) -> Progress:
    """Go on from the trial's newest checkpoint: weights, optimiser and random states are set in place.

    Where there is none, nothing is changed.
    """
    steps = steps_with_checkpoints(store, trial_id)
    if not steps:
        return Progress()
    with store.get_folder(step_prefix(trial_id, steps[-1])) as folder:
        return load_training(folder, retriever, optimizer)


def remove_training_checkpoints(store: Store, trial_id: str) -> None:
    """Remove all of the trial's training checkpoints."""
    store.delete(_steps_folder(trial_id))


def steps_with_checkpoints(store: Store, trial_id: str) -> list[int]:
    """The steps after which the trial has a checkpoint to resume from, ascending."""
    folder = _steps_folder(trial_id)
    return sorted({int(key.removeprefix(f"{folder}/").partition("/")[0]) for key in store.list(folder)})


def save_training(folder: Path, trial_id: str, retriever: Retriever, optimizer: Optimizer, progress: Progress) -> None:
    """Write a training into an empty folder."""
    save_file({name: tensor.contiguous() for name, tensor in retriever.state_dict().items()}, folder / _MODEL)
    save_file(_optimizer_tensors(retriever, optimizer), folder / _OPTIMIZER)
    save_file(torch_random_states(), folder / _RANDOM)
    rows = [history_row(trial_id, numbers) for numbers in progress.history]
    pq.write_table(make_table("history", rows), folder / _HISTORY)
    state = _State(
        format_version=FORMAT_VERSION,
        wall_s=progress.wall_s,
        peak_rss_bytes=progress.peak_rss_bytes,
        random_states=random_states(),
    )
    (folder / _STATE).write_bytes(_STATES.dump_json(state))


def load_training(folder: Path, retriever: Retriever, optimizer: Optimizer) -> Progress:
    """Set weights, optimiser and random states in place, and return how far the training had come.

    Raises:
        ValueError: another version's checkpoint, or another model's.
    """
    state = _STATES.validate_json((folder / _STATE).read_bytes())
    if state.format_version != FORMAT_VERSION:
        raise ValueError(f"{folder / _STATE}: format version {state.format_version}, where {FORMAT_VERSION} is read")
    retriever.load_state_dict(load_file(folder / _MODEL))
    _set_optimizer_tensors(retriever, optimizer, load_file(folder / _OPTIMIZER))
    restore_torch_random_states(load_file(folder / _RANDOM))
    restore_random_states(state.random_states)
    rows = check_table("history", pq.read_table(folder / _HISTORY)).to_pylist()
    return Progress(
        history=[from_history_row(row) for row in rows], wall_s=state.wall_s, peak_rss_bytes=state.peak_rss_bytes
    )


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


def _steps_folder(trial_id: str) -> str:
    return step_prefix(trial_id, 0).rpartition("/")[0]
