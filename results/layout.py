"""Where everything lies in a sweep folder, and the small JSON records that stand beside the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from results.references import Reference
from results.room import Room
from search_spaces.records import read_json
from search_spaces.specs import DataSpec, EvaluationSpec, PoolSettings

SWEEP_FILE = "sweep.yaml"
SWEEP_RECORD = "sweep.json"
POOLS = "pools"
CONTINUATIONS = "continuations"
STUDIES_JOURNAL = "studies/journal.log"  # all studies, as Optuna's journal storage reads them
LAST_EMBEDDINGS = "queries"
SWEEP_LOCK = "sweep"  # who holds it runs the sweep: the driver, or one trial alone, never both

State = Literal["running", "finished", "failed", "pruned"]  # 'pruned': a sample of a search, stopped early


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where a trial or probe stands. Times are ISO 8601 in UTC; `reason` is one line for people."""

    state: State
    started_at: str
    finished_at: str | None = None
    attempt: int = 1
    owner: str = ""  # host:pid that ran it
    reason: str | None = None
    error: str | None = None  # the traceback


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A cell that does not exist, and why."""

    title: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """A trial of the sweep as its record lists it."""

    trial_id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class PlannedStudy:
    """A search for hyperparameters; its samples are in its own record (`results.studies`).

    Attributes:
        num_samples: how many it trains.
        waiting: titles of the trials that run when it has ended; none when it has, and they are among the sweep's.
    """

    study_id: str
    title: str
    num_samples: int
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlannedEvaluation:
    """A data set that each checkpoint is evaluated on, and the groups it counts in."""

    data_set: str
    data_hash: str
    split: str
    tier: str
    main_measure: str
    relevance_threshold: int
    groups: tuple[str, ...]
    in_domain: bool
    pool_id: str | None = None  # of tier 'pool'
    reader: str | None = None  # who answers its questions, and from how many passages
    num_passages: int | None = None
    part_of: str | None = None  # the data set whose parts are averaged before any other mean

    @property
    def whole(self) -> str:
        """The data set that it counts as: itself, or the one that it is a part of."""
        return self.part_of or self.data_set


@dataclass(frozen=True, kw_only=True)
class Redeclared:
    """Primary groups that the sweep file came to declare when trials had finished, and when (ISO 8601, UTC).

    `by_default`: it names none, and what other groups it has changed what they are.
    """

    groups: tuple[str, ...]
    at: str
    by_default: bool = False
    source: str = ""  # whose sweep file, where several sweeps are read as one


@dataclass(frozen=True, kw_only=True)
class SweepRecord:
    """What a sweep file expanded to when it was last run: `status` and `tables` read this, not the file.

    `primary_groups`, whose unweighted mean decides the Fisher check's winner, are those that were declared before a
    trial had finished; `redeclared` are later ones, which decide nothing. `primary_by_default`: the file named none, so
    that they are all retrieval groups but the in-domain one. `references` are external numbers beside its own.
    """

    name: str
    trials: tuple[PlannedTrial, ...]
    probes: tuple[PlannedTrial, ...]
    evaluations: tuple[PlannedEvaluation, ...]
    left_out: tuple[LeftOut, ...]
    primary_groups: tuple[str, ...]
    tracking_uri: str | None = None  # the file's tracking.uri; without one, SQLite that the sweep folder fills
    register_best: bool = False  # tracking.register
    upload_checkpoints: bool = False
    room: Room = field(default_factory=Room)
    studies: tuple[PlannedStudy, ...] = ()
    searched_under: str | None = None  # the one similarity of all studies, where tune.per names it
    redeclared: tuple[Redeclared, ...] = ()
    primary_by_default: bool = False
    references: tuple[Reference, ...] = ()
    pilots: tuple[PlannedTrial, ...] = ()  # which are none of the trials: only predictors read them


@dataclass(frozen=True, kw_only=True)
class PoolRecord:
    """What a pool is made of. `counts`: how many documents each source gave, some of them given by others too."""

    pool_id: str
    data_set: str
    split: str
    num_corpus_documents: int
    num_documents: int
    counts: Mapping[str, int]
    settings: PoolSettings
    encoders: tuple[str, ...]
    made_by: str  # provenance as JSON


Record = TypeVar("Record", Status, SweepRecord, PoolRecord)
_EVALUATIONS = TypeAdapter(tuple[EvaluationSpec, ...])
# Made once: making one takes longer than what it does.
_RECORDS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Status, SweepRecord, PoolRecord)}
_NAMES: Mapping[type, str] = {Status: "a status", SweepRecord: SWEEP_RECORD, PoolRecord: "a pool's record"}


def to_bytes(record: Status | SweepRecord | PoolRecord) -> bytes:
    """The record as indented JSON."""
    return _RECORDS[type(record)].dump_json(record, indent=2) + b"\n"


def from_bytes(kind: type[Record], data: bytes) -> Record:
    """Read a record back. Raises UnreadableError where it is not one."""
    return read_json(_RECORDS[kind], data, _NAMES[kind])


def evaluations_to_bytes(evaluations: Sequence[EvaluationSpec]) -> bytes:
    """Evaluation specs as indented JSON."""
    return _EVALUATIONS.dump_json(tuple(evaluations), indent=2) + b"\n"


@lru_cache(maxsize=256)  # trials of one sweep have the same
def evaluations_from_bytes(data: bytes) -> tuple[EvaluationSpec, ...]:
    """Read evaluation specs back. Raises UnreadableError where they are none."""
    return read_json(_EVALUATIONS, data, "a trial's list of evaluations")


def trial_prefix(trial_id: str) -> str:
    """The folder of a trial."""
    return f"trials/{trial_id}"


def trial_rows(trial_id: str) -> str:
    """The trial's own row, written when training is done: it exists if and only if the checkpoint is whole."""
    return f"trials/{trial_id}/trial.parquet"


def history_rows(trial_id: str) -> str:
    """The trial's history rows."""
    return f"trials/{trial_id}/history.parquet"


def pilot_rows(trial_id: str) -> str:
    """What a pilot's queries gave, of the schema PER_QUERY; written before its own row."""
    return f"trials/{trial_id}/pilot.parquet"


def checkpoint_prefix(trial_id: str) -> str:
    """The folder of the trial's final checkpoint."""
    return f"trials/{trial_id}/checkpoint"


def manifest_key(trial_id: str) -> str:
    """Name, size and hash of each file of the trial's final checkpoint, found when it is first asked for."""
    return f"tracking/manifests/{trial_id}.json"


def last_checkpoint_prefix(trial_id: str) -> str:
    """The folder of the checkpoint after the last step, of a training whose final checkpoint is its best one."""
    return f"trials/{trial_id}/last_checkpoint"


def best_prefix(trial_id: str, step: int) -> str:
    """The folder of the weights after `step` optimiser steps, while they are the best that were validated."""
    return f"trials/{trial_id}/best/{step:08d}"


def step_prefix(trial_id: str, step: int) -> str:
    """The folder of the checkpoint after `step` optimiser steps, from which training resumes."""
    return f"trials/{trial_id}/steps/{step:08d}"


def end_prefix(prefix_id: str, step: int) -> str:
    """The folder of a training as it stood after its last step, from which a longer one goes on; see `prefix_id`."""
    return f"{CONTINUATIONS}/{prefix_id}/{step:08d}"


def status_key(trial_or_probe_prefix: str) -> str:
    """The status record of a trial or probe folder."""
    return f"{trial_or_probe_prefix}/status.json"


def spec_key(trial_or_probe_prefix: str) -> str:
    """The spec of a trial or probe folder."""
    return f"{trial_or_probe_prefix}/spec.json"


def study_key(study_id: str) -> str:
    """The record of a study: its samples and how each went."""
    return f"studies/{study_id}/study.json"


def norm_rows(encoding_id: str) -> str:
    """The norms found in one encoding pass."""
    return f"encodings/{encoding_id}/norms.parquet"


def judgement_rows(data: DataSpec) -> str:
    """The judgements of one split of a data set, the same for every checkpoint."""
    return f"judgements/{data.content_hash}.parquet"


def embedding_rows(encoding_id: str, part: str) -> str:
    """A part of the kept embeddings of one encoding pass; LAST_EMBEDDINGS is written when all others are there."""
    return f"encodings/{encoding_id}/embeddings/{part}.parquet"


def embeddings_prefix(encoding_id: str) -> str:
    """The folder of the kept embeddings of one encoding pass."""
    return f"encodings/{encoding_id}/embeddings"


def unfinished_prefix(checkpoint_hash: str) -> str:
    """The folder of what is left of interrupted evaluations, or of building POOLS; it goes when they are done."""
    return f"unfinished/{checkpoint_hash}"


def per_query_rows(evaluation_id: str) -> str:
    """The per query rows of one evaluation."""
    return f"evaluations/{evaluation_id}/per_query.parquet"


def run_file(evaluation_id: str) -> str:
    """The rankings of one evaluation as a TREC run file, packed by gzip."""
    return f"evaluations/{evaluation_id}/run.trec.gz"


def sts_rows(evaluation_id: str) -> str:
    """The scored pairs of one evaluation."""
    return f"evaluations/{evaluation_id}/sts.parquet"


def answer_rows(answers_id: str) -> str:
    """The answers of a reader to the questions of one data set."""
    return f"answers/{answers_id}/qa.parquet"


def scored_rows(evaluation: EvaluationSpec, evaluation_id: str) -> str:
    """The rows of one evaluation: per query, or scored pairs where the data set holds such."""
    return (sts_rows if evaluation.data.entry.is_scored else per_query_rows)(evaluation_id)


def evaluations_key(trial_id: str) -> str:
    """The evaluations that the trial's checkpoint is to have, beside its spec."""
    return f"trials/{trial_id}/evaluations.json"


def pool_prefix(pool_id: str) -> str:
    """The folder of a pool."""
    return f"pools/{pool_id}"


def pool_record(pool_id: str) -> str:
    """What the pool is made of."""
    return f"pools/{pool_id}/pool.json"


def pool_rows(pool_id: str) -> str:
    """The documents of a pool, written last: they exist if and only if the pool is whole."""
    return f"pools/{pool_id}/documents.parquet"


def pool_part_rows(pool_part_id: str) -> str:
    """What one starting encoder gives to a pool."""
    return f"pool_parts/{pool_part_id}/documents.parquet"


def probe_prefix(probe_id: str) -> str:
    """The folder of a probe."""
    return f"probes/{probe_id}"


def probe_rows(probe_id: str) -> str:
    """The probe's rows; they exist if and only if the probe is done."""
    return f"probes/{probe_id}/probes.parquet"
