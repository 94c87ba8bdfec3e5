"""What a sweep file asks for, held against what its folder already has. Imports neither torch nor ray nor mlflow."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from orchestrator.labels import names
from orchestrator.missing_inputs import MissingInputs
from orchestrator.only import Only, needed_by
from orchestrator.pool_notes import pool_notes
from orchestrator.resolve import Resolved
from orchestrator.tracking_place import absolute_uri
from results.declarations import PrimaryGroups, declared_groups
from results.layout import (
    LeftOut,
    PlannedEvaluation,
    PlannedStudy,
    PlannedTrial,
    SweepRecord,
    checkpoint_prefix,
    from_bytes,
    pilot_rows,
    pool_rows,
    probe_rows,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.layout import Status as TrialStatus
from results.listed import listed
from results.references import Reference, kept_references
from results.room import Room
from results.rows import read_rows
from results.store import Readable, Store
from results.studies import StudyRecord, budget, found, read_study
from search_spaces.expand import IN_DOMAIN, GroupedEvaluation
from search_spaces.identity import UnstableIdentityError, pool_id, probe_id, study_id, trial_id
from search_spaces.schema import CheckpointsBlock, SweepFile
from search_spaces.scoring import trained_similarity
from search_spaces.specs import EvaluationSpec, ProbeSpec, TrialSpec, evaluation_for
from search_spaces.tuning import TunedCell
from trainers.encoders.checkpoint_files import RECORD
from trainers.evaluation.evaluations import missing_evaluations

Value = TypeVar("Value")
TrialState = Literal["left", "started", "failed", "to evaluate", "finished"]


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A trial and where it stands: `finished` means trained and evaluated on every data set of the sweep."""

    spec: TrialSpec
    trial_id: str
    state: TrialState
    evaluations_left: tuple[EvaluationSpec, ...] = ()

    @property
    def is_trained_together(self) -> bool:
        """Whether what is left of it is a training on several devices; evaluations take one."""
        has_training_left = self.spec.is_trained and self.state not in ("to evaluate", "finished")
        return has_training_left and self.spec.execution.num_devices > 1


@dataclass(frozen=True, kw_only=True)
class ProbePlan:
    """A probe and whether its rows are there."""

    spec: ProbeSpec
    probe_id: str
    finished: bool


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """A study that finds hyperparameters for its cell before the cell's trials run; its record if it has begun.

    One that is over and found them is decided: its trials are among the plan's.
    """

    cell: TunedCell
    study_id: str
    record: StudyRecord | None = None

    @property
    def found(self) -> int | None:
        """The number of the sample whose hyperparameters the cell's trials run with."""
        return found(self.record, self.cell.tune)

    @property
    def num_ended(self) -> int:
        """How many samples it needs no more; those that failed are trained again."""
        samples = self.record.samples[: budget(self.cell.tune)] if self.record else ()
        return sum(sample.state in ("finished", "pruned") for sample in samples)

    @property
    def num_left(self) -> int:
        """How many samples are left to train."""
        return 0 if self.found is not None else budget(self.cell.tune) - self.num_ended

    def trials(self) -> tuple[TrialSpec, ...]:
        """The trials that it leads to; none while it is not decided."""
        return (
            ()
            if self.found is None or self.record is None
            else self.cell.chosen(self.record.samples[self.found].values)
        )


@dataclass(frozen=True, kw_only=True)
class Unidentified:
    """What has no identity yet, since weights or data of it are not here; it counts as left."""

    trials: tuple[TrialSpec, ...] = ()
    probes: tuple[ProbeSpec, ...] = ()
    studies: tuple[TunedCell, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """A pool and whether it is built."""

    spec: EvaluationSpec
    pool_id: str
    built: bool

    @property
    def title(self) -> str:
        """A short name for people."""
        return f"pool of {self.spec.data.name}/{self.spec.data.split}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A resolved sweep: identities made, what is done and what is left.

    Everything has an identity and nothing is `missing`, unless the sweep was only surveyed. `taken` names, for what
    counts as done because a run will take it over, the folder it will be taken from (`orchestrator.reuse.foresee`).
    """

    sweep: SweepFile
    where: str
    trials: tuple[TrialPlan, ...]
    probes: tuple[ProbePlan, ...]
    evaluations: tuple[GroupedEvaluation, ...]
    left_out: tuple[LeftOut, ...]
    primary: PrimaryGroups
    references: tuple[Reference, ...] = ()
    pools: tuple[PoolPlan, ...] = ()
    notices: tuple[str, ...] = ()
    studies: tuple[StudyPlan, ...] = ()
    only: Only = field(default_factory=Only)
    missing: MissingInputs = field(default_factory=MissingInputs)
    unidentified: Unidentified = field(default_factory=Unidentified)
    taken: Mapping[str, str] = field(default_factory=dict)

    @property
    def trials_left(self) -> tuple[TrialPlan, ...]:
        """What is left to run of the part that was asked for."""
        return tuple(t for t in self.trials if t.state != "finished" and self.only.takes(t.spec))

    @property
    def probes_left(self) -> tuple[ProbePlan, ...]:
        """Likewise."""
        return tuple(p for p in self.probes if not p.finished and self.only.takes(p.spec))

    @property
    def studies_left(self) -> tuple[StudyPlan, ...]:
        """The studies of that part that have not found hyperparameters yet; of those without an identity too."""
        nameless = (StudyPlan(cell=cell, study_id="") for cell in self.unidentified.studies)
        studies = (*(study for study in self.studies if study.found is None), *nameless)
        return tuple(study for study in studies if self.only.takes_study(study.cell))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What people call each trial and probe: its title, and what tells it apart from others of that title."""
        return names({t.trial_id: t.spec for t in self.trials} | {p.probe_id: p.spec for p in self.probes})

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to run of the part that was asked for."""
        return not self.trials_left and not self.probes_left and not self.studies_left


def make_plan(resolved: Resolved, store: Store | None, only: Only | None = None) -> Plan:
    """Hold a sweep file against the store; without one, nothing counts as done. `only` says what part is to be run."""
    return plan_of(resolved, listed(store) if store else None, only)


def plan_of(resolved: Resolved, there: Readable | None, only: Only | None = None) -> Plan:
    """As `make_plan`, of a sweep folder that need not be one."""
    expansion = resolved.expansion
    by_default = resolved.sweep.evaluation.primary_groups is None
    primary = declared_groups(PrimaryGroups(groups=expansion.primary_groups, by_default=by_default), there)
    cells, nameless_studies = _identified(expansion.tuned, study_id)
    studies = [StudyPlan(cell=cell, study_id=key, record=_study(key, there)) for key, cell in cells.items()]
    of_studies = (spec for study in studies for spec in study.trials())
    trials, nameless_trials = _identified((*of_studies, *expansion.trials), trial_id)
    probes, nameless_probes = _identified(expansion.probes, probe_id)
    searched = expansion.evaluations if only is None or only.takes_checkpoints else ()
    pools, _ = _identified([e.spec for e in searched if e.spec.pool], pool_id)
    return Plan(
        sweep=resolved.sweep,
        where=resolved.where,
        trials=tuple(trial_plan(key, spec, expansion.evaluations, there) for key, spec in trials.items()),
        probes=tuple(
            ProbePlan(spec=spec, probe_id=key, finished=there is not None and there.exists(probe_rows(key)))
            for key, spec in probes.items()
        ),
        evaluations=expansion.evaluations,
        left_out=tuple(LeftOut(title=cell.title, reason=cell.reason) for cell in expansion.left_out),
        primary=primary,
        references=kept_references(resolved.sweep.references),
        pools=tuple(
            PoolPlan(spec=spec, pool_id=key, built=there is not None and there.exists(pool_rows(key)))
            for key, spec in pools.items()
        ),
        notices=(*resolved.notices, *pool_notes(pools.values(), there)),
        studies=tuple(studies),
        only=only or Only(),
        missing=resolved.missing.of(needed_by(only or Only(), expansion)),
        unidentified=Unidentified(trials=nameless_trials, probes=nameless_probes, studies=nameless_studies),
    )


def _identified(items: Iterable[Value], identity: Callable[[Value], str]) -> tuple[dict[str, Value], tuple[Value, ...]]:
    """The items by identity, and those that have none yet."""
    found: dict[str, Value] = {}
    nameless: list[Value] = []
    for item in items:
        try:
            found.setdefault(identity(item), item)
        except UnstableIdentityError:
            nameless.append(item)
    return found, tuple(nameless)


def sweep_record(plan: Plan) -> SweepRecord:
    """The record that `status` and `tables` read instead of the sweep file."""
    return SweepRecord(
        name=plan.sweep.name,
        trials=tuple(_planned(plan, trial) for trial in plan.trials if trial.spec.kind != "pilot"),
        pilots=tuple(_planned(plan, trial) for trial in plan.trials if trial.spec.kind == "pilot"),
        probes=tuple(PlannedTrial(trial_id=p.probe_id, title=plan.names[p.probe_id]) for p in plan.probes),
        evaluations=tuple(_planned_evaluation(e) for e in plan.evaluations if is_known(e.spec)),
        left_out=(*plan.left_out, *_not_here(plan)),
        primary_groups=plan.primary.groups,
        primary_by_default=plan.primary.by_default,
        redeclared=plan.primary.redeclared,
        references=plan.references,
        room=room_of(plan.sweep.checkpoints),
        tracking_uri=absolute_uri(uri) if (uri := plan.sweep.tracking.uri) is not None else None,
        register_best=plan.sweep.tracking.register_best,
        upload_checkpoints=plan.sweep.tracking.upload_checkpoints,
        studies=tuple(map(_planned_study, plan.studies)),
        searched_under=plan.sweep.tune.of_similarity if plan.sweep.tune else None,
    )


def _planned(plan: Plan, trial: TrialPlan) -> PlannedTrial:
    return PlannedTrial(trial_id=trial.trial_id, title=plan.names[trial.trial_id])


def _not_here(plan: Plan) -> Iterator[LeftOut]:
    """What a part of the sweep is run without: what has no identity yet, since weights or data of it are not here."""
    nameless = plan.unidentified
    searches = (f"search {cell.title}" for cell in nameless.studies)
    for title in (*searches, *(trial.title for trial in nameless.trials), *(probe.title for probe in nameless.probes)):
        yield LeftOut(title=title, reason="its weights or data were not on the machine that ran the sweep")
    for spec in (evaluation.spec for evaluation in plan.evaluations if not is_known(evaluation.spec)):
        title = f"evaluation on {spec.data.name}/{spec.data.split}"
        yield LeftOut(title=title, reason="its data were not on the machine, which ran probes alone")


def room_of(checkpoints: CheckpointsBlock) -> Room:
    """What the sweep file says of space."""
    return Room(quota_bytes=checkpoints.quota, wait_s=checkpoints.wait_for_space_s)


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
        pool_id=pool_id(spec) if spec.pool else None,
        reader=spec.rag.reader.name if spec.rag else None,
        num_passages=spec.rag.num_passages if spec.rag else None,
        part_of=spec.data.entry.part_of,
    )


def _study(key: str, store: Readable | None) -> StudyRecord | None:
    return read_study(store, key) if store else None


def _planned_study(study: StudyPlan) -> PlannedStudy:
    return PlannedStudy(
        study_id=study.study_id,
        title=study.cell.title,
        num_samples=budget(study.cell.tune),
        waiting=() if study.found is not None else tuple(spec.title for spec in study.cell.reporting),
    )


def trial_plan(
    key: str, spec: TrialSpec, evaluations: tuple[GroupedEvaluation, ...], store: Readable | None
) -> TrialPlan:
    """Where the trial with the identity `key` stands."""
    asked = asked_of(spec, evaluations)
    if store is None or not store.exists(trial_rows(key)):
        state: TrialState = "left" if store is None else _untrained_state(key, store)
        return TrialPlan(spec=spec, trial_id=key, state=state, evaluations_left=asked)
    if spec.kind == "pilot":  # its weights are kept no longer than it takes to score them
        return TrialPlan(spec=spec, trial_id=key, state="finished" if store.exists(pilot_rows(key)) else "left")
    row = read_rows(store, trial_rows(key), "trials").to_pylist()[0]
    similarity = trained_similarity(spec.similarity, row["gamma_q"], row["gamma_d"])

    def is_left(evaluation: EvaluationSpec) -> bool:
        return not is_known(evaluation) or bool(
            missing_evaluations(row["checkpoint_hash"], similarity, evaluation, store)
        )

    left = tuple(evaluation for evaluation in asked if is_left(evaluation))
    if left and not store.exists(f"{checkpoint_prefix(key)}/{RECORD}"):  # a sample's, say, or one deleted by hand
        return TrialPlan(spec=spec, trial_id=key, state="left", evaluations_left=asked)
    return TrialPlan(spec=spec, trial_id=key, state="to evaluate" if left else "finished", evaluations_left=left)


def asked_of(spec: TrialSpec, evaluations: Iterable[GroupedEvaluation]) -> tuple[EvaluationSpec, ...]:
    """What the checkpoint of a trial is evaluated on: all there is, but a pilot's on nothing."""
    return () if spec.kind == "pilot" else tuple(evaluation_for(spec.encoder, e.spec) for e in evaluations)


def is_known(evaluation: EvaluationSpec) -> bool:
    """Whether its rows can be looked up: those on data, or on a pool of an encoder, that is not here cannot."""
    contributing = evaluation.pool.encoders if evaluation.pool else ()
    weights = (contributor.encoder.weights.content_hash for contributor in contributing)
    return evaluation.data.content_hash is not None and None not in weights


def _untrained_state(key: str, store: Readable) -> TrialState:
    if not store.exists(status_key(trial_prefix(key))):
        return "left"
    status = from_bytes(TrialStatus, store.read(status_key(trial_prefix(key))))
    return "failed" if status.state == "failed" else "started"
