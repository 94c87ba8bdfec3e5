"""A sweep file, expanded, with the content hashes of its weights and data; every problem of all of them together.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from orchestrator.checks import (
    batch_problems,
    budget_problems,
    candidate_problems,
    empty_split_problems,
    encoder_problems,
    machine_problems,
    measure_problems,
    negative_problems,
    pool_problems,
    probe_machine_problems,
    probe_problems,
    register_problems,
    run_file_problems,
)
from orchestrator.data_notes import collection_notes, pair_notes
from orchestrator.families import complete_families
from orchestrator.missing_inputs import MissingInputs, missing_inputs
from orchestrator.only import PROBE, needed_by, parse_only
from orchestrator.readers import with_reader
from orchestrator.reuse_folders import reuse_problems
from orchestrator.tracking_place import tracking_problems
from results.leaks import Part, leaks, seen_by
from search_spaces.expand import Expansion, Named, expand, named
from search_spaces.load import load_sweep
from search_spaces.problems import InputError, Problem, unknown_name
from search_spaces.schema import SweepFile
from search_spaces.sizes import parse_size
from search_spaces.specs import DataSpec, EncoderSpec, PoolSpec, TrialSpec, with_data_hash
from search_spaces.split_keys import split_keys
from trainers import data_sets, weights
from trainers.hub import nothing_fetched
from trainers.training.pairs import PairCounts, pair_counts
from trainers.weights.encoder_files import encoder_faults
from trainers.weights.limits import limits

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A sweep file, expanded, with the content hashes of all weights and data that it names and that are here.

    `notices` say, a line each, what is done with a checkpoint or with data that their user may not expect.
    """

    sweep: SweepFile
    where: str
    expansion: Expansion
    notices: tuple[str, ...] = ()
    missing: MissingInputs = field(default_factory=MissingInputs)


def resolve(
    path: Path,
    only: str | None = None,
    *,
    kinds: frozenset[str] | None = None,
    memory_budget: str | None = None,
    tracking: str | None = None,
    runs_here: bool = True,
) -> Resolved:
    """Load and expand a sweep file, and fill in the content hashes of all weights and data it names.

    Args:
        path: the sweep file.
        only: a part of its cells (`orchestrator.only`): what the others alone read may be missing.
        kinds: what is run of them, as of `orchestrator.only.Only`: what else alone reads may be missing too.
        memory_budget: taken instead of the file's own.
        tracking: the URI that is taken instead of the file's own.
        runs_here: whether it is to run on this machine, and not on a cluster.

    Raises:
        InputError: with every problem of the file, its weights and its data sets, and with what this machine lacks
            where the sweep runs here.
    """
    sweep, where = _tracked_at(_with_budget(load_sweep(path), memory_budget), tracking), str(path)
    missing = _missing_elsewhere(sweep, where, only, kinds) if only or kinds else MissingInputs()
    lacking = list(_lacking(sweep, where, kinds)) if runs_here else []
    return _resolved(sweep, where, missing, lacking)


def _lacking(sweep: SweepFile, where: str, kinds: frozenset[str] | None) -> Iterator[Problem]:
    """What this machine lacks: for probes alone not what only trials ask for."""
    if kinds == frozenset({PROBE}):
        return probe_machine_problems(sweep.probe.resources, where, beside=sweep.resources)
    return machine_problems(sweep.resources, where, sweep.probe.resources)


def _missing_elsewhere(sweep: SweepFile, where: str, only: str | None, kinds: frozenset[str] | None) -> MissingInputs:
    """What is not here and what the part does not need."""
    with nothing_fetched():
        missing = missing_inputs(sweep)
        families = complete_families(sweep, where, missing.has_weights)
    expansion = _expanded(families.sweep, where, [])
    if expansion is None:  # its problems are told with all others
        return MissingInputs()
    return missing.but(needed_by(parse_only(only, expansion, kinds), expansion))


def survey(path: Path, *, runs_here: bool = True) -> Resolved:
    """As `resolve`, but nothing is fetched: what is only on the hub is listed, and its content hashes stay unknown.

    What this machine cannot run is a notice, where the sweep `runs_here`: it is often planned elsewhere than it runs.

    Raises:
        InputError: with every other problem.
    """
    sweep = load_sweep(path)
    with nothing_fetched():
        found = _resolved(sweep, str(path), missing_inputs(sweep), [])
    lacking = machine_problems(sweep.resources, "", sweep.probe.resources) if runs_here else ()
    notices = (f"this machine could not run it: {problem.key}: {problem.message}" for problem in lacking)
    return replace(found, notices=(*found.notices, *notices))


def _resolved(sweep: SweepFile, where: str, missing: MissingInputs, problems: list[Problem]) -> Resolved:
    families = complete_families(sweep, where, missing.has_weights)
    sweep = families.sweep
    problems += [
        *families.problems,
        *measure_problems(sweep, where),
        *reuse_problems(sweep.reuse, where),
        *tracking_problems(sweep.tracking.uri, where),
    ]
    expansion = _expanded(sweep, where, problems)
    asked = named(sweep)
    encoders, data = _found_here(sweep, expansion, asked, missing, where, problems)
    contrastive = [spec for spec in asked.training if spec in data and not spec.entry.is_scored]
    negatives = _hard_negatives(expansion, contrastive)
    counts = {spec: pair_counts(spec, hard_negatives=max(negatives.get(spec, [0]))) for spec in contrastive}
    problems += _training_problems(sweep, asked, data, counts, negatives, where)
    problems += _scoring_problems(sweep, expansion, asked, data, where)
    if expansion and sweep.tracking.register_best:
        problems += register_problems(expansion.trials, where)
    evaluations = with_reader(
        expansion.evaluations if expansion else (), data, where, problems, is_missing=missing.has_weights
    )
    if problems or expansion is None:
        raise InputError(dict.fromkeys(problems))
    filled = _filled(replace(expansion, evaluations=evaluations), encoders, data)
    notices = (*families.notices, *collection_notes(data), *pair_notes(counts, negatives), *_leaks(filled))
    return Resolved(sweep=sweep, where=where, expansion=filled, notices=notices, missing=missing)


def _leaks(expansion: Expansion) -> Iterator[str]:
    """What is reported of texts that trainings, or the choice among them, see."""
    trials = [*expansion.trials, *(trial for cell in expansion.tuned for trial in cell.reporting)]
    reported = [Part.of(evaluation.spec.data) for evaluation in expansion.evaluations]
    yield from dict.fromkeys(leaks(seen_by(trials), reported, is_tuned=bool(expansion.tuned)))


def _found_here(
    sweep: SweepFile,
    expansion: Expansion | None,
    asked: Named,
    missing: MissingInputs,
    where: str,
    problems: list[Problem],
) -> tuple[dict[EncoderSpec, EncoderSpec], dict[DataSpec, DataSpec]]:
    """The encoders and the data that are here, with their content hashes."""
    there = [encoder for encoder in asked.encoders if not missing.has_weights(encoder.weights)]
    # Tens of gigabytes are not fetched to say of them what is known already.
    evaluated = [spec for spec in asked.evaluation if expansion or not spec.entry.is_never_judged]
    named_here = {*asked.training, *asked.validation, *asked.piloted, *evaluated}
    told = {spec.entry.instruction for spec in named_here}
    encoders = _each(lambda encoder: _with_weights(encoder, where, asked.encoders[encoder], told), there, problems)
    num_searches = sum(not spec.entry.is_scored for spec in asked.evaluation)
    sizes = {encoder: limits(encoder.weights, encoder.weights.content_hash or "") for encoder in encoders.values()}
    problems += budget_problems(sweep.evaluation, sizes, num_searches, where)
    there_too = (spec for spec in named_here if not missing.has_data(spec.entry))
    keys = split_keys(sweep)
    data = _each(lambda spec: _with_content(spec, where, keys.get(spec, "evaluation.groups")), there_too, problems)
    return encoders, data


def _training_problems(
    sweep: SweepFile,
    asked: Named,
    data: Mapping[DataSpec, DataSpec],
    counts: Mapping[DataSpec, PairCounts],
    negatives: Mapping[DataSpec, list[int]],
    where: str,
) -> Iterator[Problem]:
    """Batches, hard negatives and probes that the training data cannot fill."""
    num_queries = {spec: found.num_queries for spec, found in counts.items()}
    yield from batch_problems(asked.batches, {**_num_scored(asked.training, data), **num_queries}, where)
    yield from negative_problems(negatives, counts, where)
    yield from candidate_problems(counts, where, key="axes.training_data")
    yield from probe_problems(sweep.probe, list(counts), num_queries, where)


def _scoring_problems(
    sweep: SweepFile, expansion: Expansion | None, asked: Named, data: Mapping[DataSpec, DataSpec], where: str
) -> Iterator[Problem]:
    """Validation and evaluation on what has nothing to score, and rankings that no run file can hold."""
    for key, kind in (("validation", "train"), ("pilot", "pilot")):
        found = dict.fromkeys(t.validation for t in _trainings(expansion) if t.validation and t.kind == kind)
        yield from pool_problems(found, data, where, key=f"{key}.num_documents")
    grouped = [e.spec.data for e in expansion.evaluations if e.groups] if expansion else asked.evaluation
    of_keys = (("validation.data", asked.validation), ("pilot.data", asked.piloted), ("evaluation.groups", grouped))
    for key, scored in of_keys:
        yield from empty_split_problems([data[spec] for spec in scored if spec in data], where, key=key)
    if sweep.evaluation.run_files:
        kept = [spec for spec in asked.evaluation if spec in data and not spec.entry.is_scored]
        yield from run_file_problems(kept, where)


def _with_budget(sweep: SweepFile, memory_budget: str | None) -> SweepFile:
    """Raises InputError where the budget is no size."""
    if memory_budget is None:
        return sweep
    try:
        num_bytes = parse_size(memory_budget)
    except ValueError as error:
        raise InputError([Problem(where="--memory-budget", key="", message=str(error))]) from error
    evaluation = sweep.evaluation.model_copy(update={"memory_budget": num_bytes})
    return sweep.model_copy(update={"evaluation": evaluation})


def _tracked_at(sweep: SweepFile, uri: str | None) -> SweepFile:
    """Raises InputError where it is no tracking server or database."""
    if uri is None:
        return sweep
    if found := tracking_problems(uri, "--tracking", key=""):
        raise InputError(found)
    return sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})})


def _num_scored(training: Iterable[DataSpec], data: Mapping[DataSpec, DataSpec]) -> dict[DataSpec, int]:
    """How many pairs the scored training data has that is there."""
    return {spec: data[spec].num_pairs or 0 for spec in training if spec in data and spec.entry.is_scored}


def _hard_negatives(expansion: Expansion | None, there: Container[DataSpec]) -> dict[DataSpec, list[int]]:
    """What trials ask for of training data that is there: how many hard negatives of each query, each number once."""
    asked: dict[DataSpec, list[int]] = {}
    for trial in _trainings(expansion):
        data, settings = trial.training_data, trial.training
        if data and data in there and settings and settings.hard_negatives:
            numbers = asked.setdefault(data, [])
            if settings.hard_negatives not in numbers:
                numbers.append(settings.hard_negatives)
    return asked


def _expanded(sweep: SweepFile, where: str, problems: list[Problem]) -> Expansion | None:
    try:
        return expand(sweep, where=where)
    except InputError as error:
        problems.extend(error.problems)
        return None


def _trainings(expansion: Expansion | None) -> tuple[TrialSpec, ...]:
    """All trials, and of each study the samples at the ends of its search spaces."""
    if expansion is None:
        return ()
    return (*expansion.trials, *(sample for cell in expansion.tuned for sample in cell.extremes()))


def _filled(
    expansion: Expansion, encoders: Mapping[EncoderSpec, EncoderSpec], data: Mapping[DataSpec, DataSpec]
) -> Expansion:
    """The expansion with all that is known of weights and data."""

    def of(spec: DataSpec) -> DataSpec:
        return data.get(spec, spec)

    def filled(trial: TrialSpec) -> TrialSpec:
        return replace(
            trial,
            encoder=encoders.get(trial.encoder, trial.encoder),
            training_data=of(trial.training_data) if trial.training_data else None,
            validation=replace(trial.validation, data=of(trial.validation.data)) if trial.validation else None,
        )

    return replace(
        expansion,
        trials=tuple(filled(trial) for trial in expansion.trials),
        tuned=tuple(
            replace(cell, tuning=filled(cell.tuning), reporting=tuple(filled(trial) for trial in cell.reporting))
            for cell in expansion.tuned
        ),
        probes=tuple(
            replace(p, encoder=encoders.get(p.encoder, p.encoder), training_data=of(p.training_data))
            for p in expansion.probes
        ),
        evaluations=tuple(
            replace(e, spec=replace(e.spec, data=of(e.spec.data), pool=_with_hashes(e.spec.pool, encoders)))
            for e in expansion.evaluations
        ),
    )


def _with_hashes(pool: PoolSpec | None, encoders: Mapping[EncoderSpec, EncoderSpec]) -> PoolSpec | None:
    if pool is None:
        return None
    return replace(pool, encoders=tuple(replace(e, encoder=encoders.get(e.encoder, e.encoder)) for e in pool.encoders))


def _each(resolve_one: Callable[[Key], Value], keys: Iterable[Key], problems: list[Problem]) -> dict[Key, Value]:
    """Resolve each key once; problems are collected, not raised."""
    found = {}
    for key in sorted(keys, key=repr):
        try:
            found[key] = resolve_one(key)
        except InputError as error:
            problems.extend(error.problems)
    return found


def _with_weights(encoder: EncoderSpec, where: str, key: str, instructions: Set[str | None]) -> EncoderSpec:
    """The encoder with its content hash. Raises InputError where its weights are not there, or hold less than asked."""
    try:
        pinned = weights.pinned(encoder.weights)
        content_hash = weights.content_hash(pinned)
        found = limits(pinned, content_hash)
    except InputError as error:
        raise InputError(Problem(where=where, key=key, message=str(fault)) for fault in error.problems) from error
    faults = [f"{encoder.weights.source}: {fault}" for fault in encoder_faults(encoder, content_hash, instructions)]
    problems = list(encoder_problems(encoder, found, where=where, key=key))
    if problems := [*problems, *(Problem(where=where, key=key, message=fault) for fault in faults)]:
        raise InputError(problems)
    return replace(encoder, weights=replace(pinned, content_hash=content_hash))


def _with_content(data: DataSpec, where: str, key: str) -> DataSpec:
    """The data with its content hash. Raises InputError where it cannot be read, or has no such split."""
    if data.split not in (known := data_sets.splits(data.entry)):
        message = f"data set '{data.name}': {unknown_name('split', data.split, known)}"
        raise InputError([Problem(where=where, key=key, message=message)])
    found = data_sets.fingerprint(data.entry, data.split)
    return with_data_hash(data, content_hash=found.content_hash, num_pairs=found.num_pairs)
