"""Settings that count optimiser steps, held against how many a cell trains: beyond them they would do nothing."""

from collections.abc import Iterable, Iterator

from search_spaces.cells import Cell
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile


def step_problems(cells: Iterable[Cell], sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Trainings that would end before their first validation, or in their warm-up."""
    cells = list(cells)
    known = [steps for cell in cells if (steps := _setting("steps", cell, sweep)[0]) is not None]
    yield from _kappa_problems((cell.task for cell in cells), min(known, default=None), sweep, where)
    for cell in cells:
        (steps, _), (warmup_steps, key) = (_setting(name, cell, sweep) for name in ("steps", "warmup_steps"))
        if steps is None:
            continue
        if warmup_steps is not None and warmup_steps >= steps:
            message = f"{warmup_steps}, but training has {steps} steps: it would never reach its learning rate"
            yield Problem(where=where, key=key, message=message)
        if sweep.validation and sweep.validation.every_steps > steps:
            message = f"{sweep.validation.every_steps}, but training has {steps} steps: nothing would be validated"
            yield Problem(where=where, key="validation.every_steps", message=message)


def _kappa_problems(tasks: Iterable[str], fewest_steps: int | None, sweep: SweepFile, where: str) -> Iterator[Problem]:
    every, key = sweep.training.log_kappa_every, "training.log_kappa_every"  # type: ignore[attr-defined]
    if every is None:
        return
    if fewest_steps is not None and every > fewest_steps:
        message = f"{every}, but training has {fewest_steps} steps: nothing would be logged"
        yield Problem(where=where, key=key, message=message)
    if "contrastive" not in (tasks := list(tasks)) and tasks:
        message = f"task '{tasks[0]}' has no softmax, hence no Fisher information to log (leave it out)"
        yield Problem(where=where, key=key, message=message)


def _setting(name: str, cell: Cell, sweep: SweepFile) -> tuple[int | None, str]:
    """A setting of a cell, the largest that is searched, None where only its default is left; and its key."""
    if name in cell.hyperparameters:
        return cell.hyperparameters[name], cell.keys[name]
    if sweep.tune and (space := sweep.tune.spaces.get(name)):
        return space.largest(), f"tune.spaces.{name}"
    return getattr(sweep.training, name), f"training.{name}"
