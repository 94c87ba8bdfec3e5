"""What the sweep folder says of a study: the samples it drew, how each went, and which hyperparameters it found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from results.layout import PlannedStudy, PlannedTrial, SweepRecord, study_key
from results.schemas import SchemaError
from results.store import Readable, Store
from search_spaces.problems import UnreadableError
from search_spaces.records import read_json
from search_spaces.tuning import Metric, TuneSpec, Value

SampleState = Literal["drawn", "finished", "pruned", "failed"]
Scores = tuple[tuple[int, float], ...]  # (optimiser step, validation score), ascending


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One training of a study. Its place in the study is its number.

    Attributes:
        trial_id: the training's identity, under which its rows lie.
        values: of the hyperparameters that are searched.
        state: 'drawn' until it has ended; 'pruned' where successive halving ended it early.
        scores: its validations, of a pruned one up to the step of which it was pruned.
        steps: how many optimiser steps it trained.
    """

    trial_id: str
    values: Mapping[str, Value]
    state: SampleState = "drawn"
    scores: Scores = ()
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """A study as far as it has come."""

    title: str
    samples: tuple[Sample, ...] = ()


_RECORDS = TypeAdapter(StudyRecord)


def read_study(store: Readable, study_id: str) -> StudyRecord | None:
    """The study's record, if it has begun.

    Raises:
        SchemaError: the record is damaged.
    """
    key = study_key(study_id)
    return read_record(key, store.read(key)) if store.exists(key) else None


def read_record(key: str, data: bytes) -> StudyRecord:
    """What lies at a study's key. Raises SchemaError where it is damaged."""
    try:
        return read_json(_RECORDS, data, key)
    except UnreadableError as error:
        made_again = "densesweep doctor --repair removes it; the next run makes it again of the samples that are there"
        raise SchemaError(f"{error} ({made_again})") from error


def write_study(store: Store, study_id: str, record: StudyRecord) -> None:
    """Replace the study's record."""
    store.write(study_key(study_id), _RECORDS.dump_json(record, indent=2) + b"\n")


def worth(metric: Metric, scores: Scores, *, until: int | None = None) -> float | None:
    """What a sample is worth by its validations, or by those `until` a step; None without any. Higher is better."""
    told = [score for step, score in scores if until is None or step <= until]
    if not told:
        return None
    return max(told) if metric == "best_validation" else told[-1]


def budget(tune: TuneSpec) -> int:
    """How many samples a study trains: what the file says, but no combination twice."""
    combinations = 1
    for _, space in tune.spaces:
        values = space.values()
        if values is None:
            return tune.num_samples
        combinations *= len(values)
    return min(tune.num_samples, combinations)


def found(record: StudyRecord | None, tune: TuneSpec) -> int | None:
    """The number of the best sample, the first of equal ones; None while some have not ended, or none ended well."""
    samples = record.samples[: budget(tune)] if record else ()
    if len(samples) < budget(tune) or any(sample.state == "drawn" for sample in samples):
        return None
    return best(samples, tune.metric)


def best(samples: Sequence[Sample], metric: Metric) -> int | None:
    """The number of the best of those that trained all their steps."""
    scored = [(number, worth(metric, s.scores)) for number, s in enumerate(samples) if s.state == "finished"]
    worths = [(value, -number) for number, value in scored if value is not None]
    return -max(worths)[1] if worths else None


def planned_samples(store: Readable, record: SweepRecord) -> Iterator[PlannedTrial]:
    """The samples that the studies of a sweep have drawn, titled for people."""
    for planned in record.studies:
        study = read_study(store, planned.study_id)
        for number, sample in enumerate(study.samples if study else ()):
            yield PlannedTrial(trial_id=sample.trial_id, title=sample_title(planned.title, number))


def sample_title(study_title: str, number: int) -> str:
    """A sample's name for people."""
    return f"{study_title}/sample {number}"


def search_notes(store: Readable, record: SweepRecord) -> tuple[str, ...]:
    """In what the searches of a sweep did not treat its similarities alike, a line each."""
    lines = []
    if record.searched_under:
        lines.append(searched_under_note(record.searched_under))
    ended = {planned.title: _num_ended_well(store, planned) for planned in record.studies}
    if len(set(ended.values())) > 1:
        told = "; ".join(f"{number} in {title}" for title, number in ended.items())
        lines.append(f"samples that ended well or were pruned, of which each search took the best: {told}")
    return tuple(lines)


def searched_under_note(similarity: str) -> str:
    """That all similarities take what was found under one."""
    return f"hyperparameters are searched under {similarity} alone, and the other similarities take what it finds"


def _num_ended_well(store: Readable, planned: PlannedStudy) -> int:
    study = read_study(store, planned.study_id)
    samples = study.samples[: planned.num_samples] if study else ()
    return sum(sample.state in ("finished", "pruned") for sample in samples)


def values_text(values: Mapping[str, Value]) -> str:
    """Hyperparameters in a line, for people."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
