"""Expand a sweep file: cross the axes into trials, and list studies, probes, evaluations and what was left out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from search_spaces.catalogue.families import Role
from search_spaces.cell_checks import (
    CellLeftOut,
    dead_settings,
    left_out,
    missing_settings,
    untrainable,
    unvalidatable,
)
from search_spaces.cells import Cell, cell_problems, cells
from search_spaces.declared import Declared
from search_spaces.evaluation_specs import IN_DOMAIN, GroupedEvaluation, evaluations, primary_groups
from search_spaces.idle_values import idle_problems
from search_spaces.pilots import pilot_data, pilot_problems, pilots
from search_spaces.pools import tier_problems, with_contributors
from search_spaces.problems import InputError, Problem
from search_spaces.schema import SweepFile
from search_spaces.specs import DataSpec, EncoderSpec, ProbeSpec, TrialSpec
from search_spaces.step_checks import step_problems
from search_spaces.task_checks import task_problems
from search_spaces.trial_specs import probe_spec, trial_spec, untrained_spec, validation_spec
from search_spaces.tuned_cells import tune_problems, tuned_cells
from search_spaces.tuning import TunedCell

__all__ = ["IN_DOMAIN", "CellLeftOut", "Expansion", "GroupedEvaluation", "Named", "expand", "named", "named_data"]
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """All that a sweep file asks for, without content hashes yet.

    Attributes:
        trials: pilots, trained ones whose hyperparameters are known, then untrained ones.
        tuned: studies, one for each cell of a file that tunes; what trials they lead to, they say themselves.
        probes: before any training.
        evaluations: of every checkpoint of `trials`, and of those that run with what a study found; of no sample.
        left_out: cells that do not exist.
        primary_groups: the groups whose mean decides the Fisher check's winner.
    """

    trials: tuple[TrialSpec, ...]
    probes: tuple[ProbeSpec, ...]
    evaluations: tuple[GroupedEvaluation, ...]
    left_out: tuple[CellLeftOut, ...]
    primary_groups: tuple[str, ...]
    tuned: tuple[TunedCell, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Named:
    """The weights and data that a sweep file names, also where not all of it can be expanded.

    `encoders` and `batches` (training data and batch size) map to their keys in the file.
    """

    encoders: Mapping[EncoderSpec, str]
    training: tuple[DataSpec, ...]
    validation: tuple[DataSpec, ...]
    evaluation: tuple[DataSpec, ...]
    batches: Mapping[tuple[DataSpec, int], str]
    piloted: tuple[DataSpec, ...] = ()


def expand(sweep: SweepFile, *, where: str) -> Expansion:
    """Cross the axes and the include blocks of a sweep file.

    Raises:
        InputError: a cell lacks its checkpoint (unless `missing_checkpoints: leave_out`), a data set has no such
            split role, a required training setting is missing, a cell contradicts its task or the search, or nothing
            is left to run.
    """
    declared = Declared.by(sweep)
    problems = [
        *cell_problems(sweep, where),
        *missing_settings(sweep, where),
        *dead_settings(sweep, where),
        *idle_problems([*cells(sweep), *_searched(sweep)], sweep, where),
        *untrainable(sweep, declared, where),
        *unvalidatable(sweep, declared, where),
        *task_problems([*cells(sweep), *_searched(sweep)], sweep, declared.data_sets, where),
        *step_problems(cells(sweep), sweep, where),
        *tune_problems(sweep, where),
        *tier_problems(sweep.evaluation, declared.data_sets, where),
        *pilot_problems(sweep, declared, where),
    ]
    absent = left_out(sweep, declared, where)
    if sweep.missing_checkpoints == "refuse":
        problems += [problem for problem, _ in absent]
    if problems:
        raise InputError(_distinct(problems))
    missing = {(cell.family, cell.init_regime) for _, cell in absent}
    there = [cell for cell in cells(sweep) if cell.pair not in missing]
    if not there:
        raise InputError([Problem(where=where, key="axes", message="no cell is left to run")])
    tuned = tuned_cells(there, sweep, declared) if sweep.tune else ()
    trained = () if sweep.tune else _distinct(trial_spec(cell, sweep, declared) for cell in there)
    of_cells = trained or _distinct(trial for study in tuned for trial in study.reporting)
    untrained = _distinct(untrained_spec(trial) for trial in of_cells)
    return Expansion(
        trials=(*pilots(trained, sweep, declared), *trained, *untrained),
        tuned=tuned,
        # What is probed is the Fisher information of the contrastive loss.
        probes=_distinct(probe_spec(trial, sweep) for trial in of_cells if trial.task == "contrastive"),
        evaluations=tuple(replace(e, spec=with_contributors(e.spec, untrained)) for e in evaluations(sweep, declared)),
        left_out=_distinct(cell for _, cell in absent),
        primary_groups=primary_groups(sweep, declared),
    )


def named(sweep: SweepFile) -> Named:
    """The weights and data of the cells of a sweep file; what a cell does not have is passed over, not refused."""
    declared = Declared.by(sweep)
    encoders: dict[EncoderSpec, str] = {}
    training: list[DataSpec] = []
    validation: list[DataSpec] = []
    piloted: list[DataSpec] = []
    batches: dict[tuple[DataSpec, int], str] = {}
    for cell in cells(sweep):
        if declared.checkpoint(*cell.pair):
            encoder = declared.encoder(cell.family, cell.init_regime)
            encoders.setdefault(encoder, f"{cell.keys['family']} '{cell.family.name}'")
        elif sweep.missing_checkpoints == "leave_out":
            continue
        data = declared.data(cell.training_data, "train")
        if not data.split:
            continue
        training.append(data)
        if (validated := validation_spec(cell.training_data, sweep, declared)) and validated.data.split:
            validation.append(validated.data)
        if sweep.pilot and cell.task == "contrastive":
            piloted.append(pilot_data(cell.training_data, sweep.pilot, declared))
        for size, key in _batch_sizes(cell, sweep):
            batches.setdefault((data, size), key)
    return Named(
        encoders=encoders,
        training=_distinct(training),
        validation=_distinct(validation),
        evaluation=_distinct(evaluation.spec.data for evaluation in evaluations(sweep, declared)),
        batches=batches,
        piloted=_distinct(data for data in piloted if data.split),
    )


def named_data(sweep: SweepFile) -> tuple[DataSpec, ...]:
    """All data that a sweep file trains, validates and evaluates on, whether its cells can be expanded or not."""
    declared = Declared.by(sweep)
    references = _distinct(cell.training_data for cell in cells(sweep))
    training = [declared.data(reference, "train") for reference in references]
    validated = [validation_spec(reference, sweep, declared) for reference in references]
    evaluated = [evaluation.spec.data for evaluation in evaluations(sweep, declared)]
    validation = [spec.data for spec in validated if spec]
    piloted = [pilot_data(reference, sweep.pilot, declared) for reference in references] if sweep.pilot else []
    return _distinct([*training, *validation, *piloted, *evaluated])


def used_checkpoints(sweep: SweepFile) -> Mapping[tuple[str, Role], str]:
    """Family and role of each checkpoint that a cell of the sweep file reads, with its key in the file."""
    declared = Declared.by(sweep)
    used: dict[tuple[str, Role], str] = {}
    for cell in cells(sweep):
        if role := declared.role(*cell.pair):
            used.setdefault((cell.family.name, role), f"{cell.keys['family']} '{cell.family.name}'")
    return used


def _distinct(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _searched(sweep: SweepFile) -> Iterator[Cell]:
    """Cells under the one similarity that studies are made under, which need not be an axis value."""
    if sweep.tune and (similarity := sweep.tune.of_similarity):
        for cell in cells(sweep):
            yield replace(cell, similarity=similarity, keys={**cell.keys, "similarity": "tune.per"})


def _batch_sizes(cell: Cell, sweep: SweepFile) -> Iterator[tuple[int, str]]:
    """The batch size of a cell, and its key in the file; the largest of those that are searched."""
    if own := cell.hyperparameters.get("global_batch"):
        yield own, cell.keys["global_batch"]
    elif given := sweep.training.global_batch:  # type: ignore[attr-defined]
        yield given, "training.global_batch"
    elif sweep.tune and (space := sweep.tune.spaces.get("global_batch")):
        yield space.largest(), "tune.spaces.global_batch"
