"""The studies of a sweep file that tunes: cells grouped by what one study finds hyperparameters for."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from search_spaces.cells import Cell, axes_blocks, cells
from search_spaces.declared import Declared
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile
from search_spaces.specs import TrialSpec
from search_spaces.trial_specs import similarity_spec, trial_spec
from search_spaces.tuning import TunedCell, first_values

_LOSS_OF_NEGATIVES = ("hard_negatives", "loss_directions")


def tuned_cells(there: Iterable[Cell], sweep: SweepFile, declared: Declared) -> tuple[TunedCell, ...]:
    """One study for the cells that differ in seed alone, and with `per: similarity=NAME` for all similarities too.

    `there` are cells that have their checkpoint.
    """
    block = sweep.tune
    assert block is not None, "the file tunes"
    assert sweep.validation is not None, "what is tuned is validated"
    tune = block.spec(sweep.validation.every_steps)
    values = first_values(tune.spaces)
    reporting: dict[TrialSpec, list[TrialSpec]] = {}
    for cell in there:
        trial = trial_spec(cell, sweep, declared, values)
        similarity = similarity_spec(block.of_similarity) if block.of_similarity else trial.similarity
        trials = reporting.setdefault(replace(trial, seed=tune.seed, similarity=similarity), [])
        if trial not in trials:
            trials.append(trial)
    return tuple(
        TunedCell(title=_title(tuning), tuning=tuning, reporting=tuple(trials), tune=tune)
        for tuning, trials in reporting.items()
    )


def tune_problems(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """In what the tune block and the rest of the file contradict each other."""
    for key, message in _faults(sweep) if sweep.tune else ():
        yield Problem(where=where, key=key, message=message)


def _faults(sweep: SweepFile) -> Iterator[tuple[str, str]]:
    block = sweep.tune
    assert block is not None, "the file tunes"
    if sweep.validation is None:
        yield "validation", "is required where the file tunes: a sample is worth its validation score"
    if block.seed in {cell.seed for cell in cells(sweep)}:
        message = f"{block.seed} is a seed that is reported: samples were chosen by it (take another for the search)"
        yield "tune.seed", message
    for name in block.spaces:
        if getattr(sweep.training, name) is not None:
            yield f"training.{name}", "is searched (tune.spaces), so that this value would do nothing: leave it out"
        for key in dict.fromkeys(axes.keys[name] for axes in axes_blocks(sweep) if name in axes.hyperparameters):
            yield key, "is searched (tune.spaces), and cannot be an axis too"
    if "sts" in {cell.task for cell in cells(sweep)}:
        for name in _LOSS_OF_NEGATIVES:
            if name in block.spaces:
                yield f"tune.spaces.{name}", "task 'sts' has no negatives: its loss is the squared error of each pair"
    yield from _scheduler_faults(sweep)


def _scheduler_faults(sweep: SweepFile) -> Iterator[tuple[str, str]]:
    scheduler = sweep.tune.scheduler if sweep.tune else None
    if scheduler is None or sweep.validation is None:
        return
    every, grace = sweep.validation.every_steps, scheduler.grace_steps or sweep.validation.every_steps
    if grace < every:
        message = f"{grace}, but the first validation is after {every} steps: there would be nothing to compare"
        yield "tune.scheduler.grace_steps", message
    fewest = min((steps for cell in cells(sweep) if (steps := _steps(cell, sweep))), default=None)
    if fewest is not None and grace >= fewest:
        message = f"{grace}, but training has {fewest} steps: nothing would be stopped early (write scheduler: none)"
        yield "tune.scheduler.grace_steps", message


def _steps(cell: Cell, sweep: SweepFile) -> int | None:
    steps: int | None = cell.hyperparameters.get("steps", sweep.training.steps)  # type: ignore[attr-defined]
    return steps


def _title(tuning: TrialSpec) -> str:
    return tuning.title.rpartition("/s")[0]
