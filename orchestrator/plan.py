"""What a sweep file asks for, held against what its folder already has. Imports neither torch nor ray nor mlflow."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from orchestrator.checks import (
    batch_problems,
    candidate_problems,
    empty_split_problems,
    encoder_problems,
    machine_problems,
    measure_problems,
    negative_problems,
    pool_problems,
    probe_problems,
)
from orchestrator.data_notes import collection_notes, pair_notes
from orchestrator.families import complete_families
from orchestrator.readers import with_reader
from orchestrator.tracking_place import absolute_uri, tracking_problems
from results.layout import (
    LeftOut,
    PlannedEvaluation,
    PlannedTrial,
    SweepRecord,
    from_bytes,
    probe_rows,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.layout import Status as TrialStatus
from results.rows import read_rows
from results.store import Store
from search_spaces.expand import IN_DOMAIN, Expansion, GroupedEvaluation, expand, named
from search_spaces.identity import probe_id, study_id, trial_id
from search_spaces.load import load_sweep
from search_spaces.problems import InputError, Problem
from search_spaces.schema import SweepFile
from search_spaces.scoring import trained_similarity
from search_spaces.specs import DataSpec, EncoderSpec, ProbeSpec, TrialSpec, with_data_hash
from search_spaces.tuning import TunedCell
from trainers import data_sets, weights
from trainers.evaluation.evaluations import missing_evaluations
from trainers.training.pairs import pair_counts
from trainers.weights.encoder_files import encoder_faults
from trainers.weights.limits import limits

TrialState = Literal["left", "started", "failed", "to evaluate", "finished"]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A trial and where it stands: `finished` means trained and evaluated on every data set of the sweep."""

    spec: TrialSpec
    trial_id: str
    state: TrialState

    @property
    def is_trained_together(self) -> bool:
        """Whether what is left of it is a training on several devices; evaluations take one."""
        has_training_left = self.spec.kind == "train" and self.state not in ("to evaluate", "finished")
        return has_training_left and self.spec.execution.num_devices > 1


@dataclass(frozen=True, kw_only=True)
class ProbePlan:
    """A probe and whether its rows are there."""

    spec: ProbeSpec
    probe_id: str
    finished: bool


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """A study that finds hyperparameters for its cell before the cell's trials run."""

    cell: TunedCell
    study_id: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A resolved sweep: every content hash known, every identity made, what is done and what is left."""

    sweep: SweepFile
    where: str
    trials: tuple[TrialPlan, ...]
    probes: tuple[ProbePlan, ...]
    evaluations: tuple[GroupedEvaluation, ...]
    left_out: tuple[LeftOut, ...]
    primary_groups: tuple[str, ...]
    notices: tuple[str, ...] = ()
    studies: tuple[StudyPlan, ...] = ()

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to run."""
        return all(t.state == "finished" for t in self.trials) and all(p.finished for p in self.probes)

    @property
    def steps_left(self) -> int:
        """Optimiser steps of the trials that are not trained yet; steps of unfinished ones count whole."""
        left = [t.spec.training for t in self.trials if t.state not in ("finished", "to evaluate")]
        return sum(training.steps for training in left if training)


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A sweep file, expanded, with the content hashes of all weights and data that it names.

    `notices` say, a line each, what is done with a checkpoint or with data that their user may not expect.
    """

    sweep: SweepFile
    where: str
    expansion: Expansion
    notices: tuple[str, ...] = ()


def resolve(path: Path) -> Resolved:
    """Load and expand a sweep file, and fill in the content hashes of all weights and data it names.

    Raises:
        InputError: with every problem of the file, its weights and its data sets, and with what this machine lacks.
    """
    where = str(path)
    families = complete_families(load_sweep(path), where)
    sweep = families.sweep
    problems = [
        *families.problems,
        *machine_problems(sweep.resources, where),
        *measure_problems(sweep, where),
        *tracking_problems(sweep.tracking.uri, where),
    ]
    expansion = _expanded(sweep, where, problems)
    asked = named(sweep)
    encoders = _each(lambda encoder: _with_weights(encoder, where, asked.encoders[encoder]), asked.encoders, problems)
    data = _each(_with_content, {*asked.training, *asked.validation, *asked.evaluation}, problems)
    contrastive = [spec for spec in asked.training if spec in data and not spec.entry.is_scored]
    negatives = _hard_negatives(expansion, contrastive)
    counts = {spec: pair_counts(spec, hard_negatives=max(negatives.get(spec, [0]))) for spec in contrastive}
    num_queries = {spec: found.num_queries for spec, found in counts.items()}
    problems += batch_problems(asked.batches, {**_num_scored(asked.training, data), **num_queries}, where)
    problems += negative_problems(negatives, counts, where)
    problems += candidate_problems(counts, where, key="axes.training_data")
    validations = dict.fromkeys(t.validation for t in _trainings(expansion) if t.validation)
    problems += pool_problems(validations, data, where)
    grouped = [e.spec.data for e in expansion.evaluations if e.groups] if expansion else asked.evaluation
    for key, scored in (("validation.data", asked.validation), ("evaluation.groups", grouped)):
        problems += empty_split_problems([data[spec] for spec in scored if spec in data], where, key=key)
    problems += probe_problems(sweep.probe, contrastive, num_queries, where)
    evaluations = with_reader(expansion.evaluations if expansion else (), data, where, problems)
    if problems or expansion is None:
        raise InputError(dict.fromkeys(problems))
    filled = _filled(replace(expansion, evaluations=evaluations), encoders, data)
    notices = (*families.notices, *collection_notes(data), *pair_notes(counts, negatives))
    return Resolved(sweep=sweep, where=where, expansion=filled, notices=notices)


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
    def filled(trial: TrialSpec) -> TrialSpec:
        return replace(
            trial,
            encoder=encoders[trial.encoder],
            training_data=data[trial.training_data] if trial.training_data else None,
            validation=replace(trial.validation, data=data[trial.validation.data]) if trial.validation else None,
        )

    return replace(
        expansion,
        trials=tuple(filled(trial) for trial in expansion.trials),
        tuned=tuple(
            replace(cell, tuning=filled(cell.tuning), reporting=tuple(filled(trial) for trial in cell.reporting))
            for cell in expansion.tuned
        ),
        probes=tuple(
            replace(p, encoder=encoders[p.encoder], training_data=data[p.training_data]) for p in expansion.probes
        ),
        evaluations=tuple(replace(e, spec=replace(e.spec, data=data[e.spec.data])) for e in expansion.evaluations),
    )


def make_plan(resolved: Resolved, store: Store | None) -> Plan:
    """Hold a sweep file against the store; without one, nothing counts as done."""
    expansion = resolved.expansion
    by_id = {trial_id(spec): spec for spec in expansion.trials}
    probes = {probe_id(spec): spec for spec in expansion.probes}
    return Plan(
        sweep=resolved.sweep,
        where=resolved.where,
        trials=tuple(
            TrialPlan(spec=spec, trial_id=key, state=_trial_state(key, spec, expansion.evaluations, store))
            for key, spec in by_id.items()
        ),
        probes=tuple(
            ProbePlan(spec=spec, probe_id=key, finished=store is not None and store.exists(probe_rows(key)))
            for key, spec in probes.items()
        ),
        evaluations=expansion.evaluations,
        left_out=tuple(LeftOut(title=cell.title, reason=cell.reason) for cell in expansion.left_out),
        primary_groups=expansion.primary_groups,
        notices=resolved.notices,
        studies=tuple(StudyPlan(cell=cell, study_id=study_id(cell)) for cell in expansion.tuned),
    )


def sweep_record(plan: Plan) -> SweepRecord:
    """The record that `status` and `tables` read instead of the sweep file."""
    return SweepRecord(
        name=plan.sweep.name,
        trials=tuple(PlannedTrial(trial_id=t.trial_id, title=t.spec.title) for t in plan.trials),
        probes=tuple(PlannedTrial(trial_id=p.probe_id, title=p.spec.title) for p in plan.probes),
        evaluations=tuple(_planned_evaluation(e) for e in plan.evaluations),
        left_out=plan.left_out,
        primary_groups=plan.primary_groups,
        tracking_uri=absolute_uri(uri) if (uri := plan.sweep.tracking.uri) is not None else None,
    )


def _planned_evaluation(evaluation: GroupedEvaluation) -> PlannedEvaluation:
    spec = evaluation.spec
    assert spec.data.content_hash is not None, "plans hold resolved specs"
    return PlannedEvaluation(
        data_set=spec.data.name,
        data_hash=spec.data.content_hash,
        split=spec.data.split,
        tier=spec.tier,
        main_measure=spec.data.entry.measures[0],
        relevance_threshold=spec.data.entry.relevance_threshold,
        groups=evaluation.groups,
        in_domain=IN_DOMAIN in evaluation.groups,
        reader=spec.rag.reader.name if spec.rag else None,
        num_passages=spec.rag.num_passages if spec.rag else None,
    )


def _trial_state(
    key: str, spec: TrialSpec, evaluations: tuple[GroupedEvaluation, ...], store: Store | None
) -> TrialState:
    if store is None:
        return "left"
    if not store.exists(trial_rows(key)):
        return _untrained_state(key, store)
    row = read_rows(store, trial_rows(key), "trials").to_pylist()[0]
    similarity = trained_similarity(spec.similarity, row["gamma_q"], row["gamma_d"])
    for evaluation in evaluations:
        if missing_evaluations(row["checkpoint_hash"], similarity, evaluation.spec, store):
            return "to evaluate"
    return "finished"


def _untrained_state(key: str, store: Store) -> TrialState:
    if not store.exists(status_key(trial_prefix(key))):
        return "left"
    status = from_bytes(TrialStatus, store.read(status_key(trial_prefix(key))))
    return "failed" if status.state == "failed" else "started"


def _each(resolve_one: Callable[[Key], Value], keys: Iterable[Key], problems: list[Problem]) -> dict[Key, Value]:
    """Resolve each key once; problems are collected, not raised."""
    found = {}
    for key in sorted(keys, key=repr):
        try:
            found[key] = resolve_one(key)
        except InputError as error:
            problems.extend(error.problems)
    return found


def _with_weights(encoder: EncoderSpec, where: str, key: str) -> EncoderSpec:
    """The encoder with its content hash. Raises InputError where its weights are not there, or hold less than asked."""
    try:
        pinned = weights.pinned(encoder.weights)
        content_hash = weights.content_hash(pinned)
        found = limits(pinned, content_hash)
    except InputError as error:
        raise InputError(Problem(where=where, key=key, message=str(fault)) for fault in error.problems) from error
    faults = [f"{encoder.weights.source}: {fault}" for fault in encoder_faults(encoder, content_hash)]
    problems = list(encoder_problems(encoder, found, where=where, key=key))
    if problems := [*problems, *(Problem(where=where, key=key, message=fault) for fault in faults)]:
        raise InputError(problems)
    return replace(encoder, weights=replace(pinned, content_hash=content_hash))


def _with_content(data: DataSpec) -> DataSpec:
    found = data_sets.fingerprint(data.entry, data.split)
    return with_data_hash(data, content_hash=found.content_hash, num_pairs=found.num_pairs)
