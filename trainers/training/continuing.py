"""The end of a training under a constant schedule, from which one of more steps goes on as if it had never stopped.

A folder holds what a training checkpoint does (`trainers.training.resume`) and, where an earlier step was the best that
was validated, best.safetensors with the weights after that step.
"""

import shutil
from pathlib import Path

from torch.optim import Optimizer

from results.layout import best_prefix, end_prefix
from results.store import Store
from trainers.training.resume import MODEL, Progress, load_training, save_training
from trainers.training.retriever import Retriever

_BEST = "best.safetensors"


def write_end(
    store: Store, prefix_id: str, trial_id: str, retriever: Retriever, optimizer: Optimizer, progress: Progress
) -> None:
    """Publish the training as it stands after its last step, with the best weights of `trial_id`."""
    prefix = end_prefix(prefix_id, progress.step)

    def fill(folder: Path) -> None:
        save_training(folder, trial_id, retriever, optimizer, progress)
        if progress.best and progress.best.step != progress.step:
            with store.get_folder(best_prefix(trial_id, progress.best.step)) as best:
                shutil.copyfile(best / MODEL, folder / _BEST)

    store.delete(prefix)  # of an attempt that died before its rows were written, perhaps under other threads
    store.put_folder(prefix, fill)


def longest_end(store: Store, prefix_id: str, num_steps: int) -> int | None:
    """After how many steps the longest training ended that is no longer than `num_steps`; None where there is none."""
    folder = end_prefix(prefix_id, 0).rpartition("/")[0]
    steps = {int(key.removeprefix(f"{folder}/").partition("/")[0]) for key in store.list(folder)}
    return max((step for step in steps if step <= num_steps), default=None)


def load_end(store: Store, prefix_id: str, step: int, retriever: Retriever, optimizer: Optimizer) -> Progress:
    """Set weights and optimiser to those of an end, in place, and return how far it had come."""
    with store.get_folder(end_prefix(prefix_id, step)) as folder:
        return load_training(folder, retriever, optimizer)


def take_over_best(store: Store, prefix_id: str, trial_id: str, progress: Progress) -> None:
    """Make the best weights of an end those of `trial_id`: its training checkpoints and its final one refer to them."""
    best = progress.best
    if best is None:
        return
    with store.get_folder(end_prefix(prefix_id, progress.step)) as end:
        source = end / (MODEL if best.step == progress.step else _BEST)
        store.delete(best_prefix(trial_id, best.step))
        store.put_folder(best_prefix(trial_id, best.step), lambda folder: _copy(source, folder / MODEL))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
