"""Ends of trainings under a constant schedule: which trial waits for which, and which ends nothing needs any more."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from orchestrator.findings import Finding
from results import layout
from results.layout import Status, SweepRecord
from results.store import Listable, Store
from results.studies import planned_samples
from search_spaces.identity import prefix_id, trial_id
from search_spaces.problems import UnreadableError
from search_spaces.specs import TrialSpec, from_json

_Record = TypeVar("_Record")


def waits_for(trials: Iterable[TrialSpec]) -> dict[str, str]:
    """Trial -> the next shorter one that begins as it does, from whose end it goes on; of those to be trained."""
    alike: dict[str, list[TrialSpec]] = {}
    for spec in trials:
        if begins := prefix_id(spec):
            alike.setdefault(begins, []).append(spec)
    ordered = (sorted(specs, key=_num_steps) for specs in alike.values())
    return {trial_id(longer): trial_id(shorter) for specs in ordered for shorter, longer in pairwise(specs)}


def steps_made(left: Mapping[str, TrialSpec], store: Listable | None) -> dict[str, int]:
    """Trial -> how many of its steps others make: a shorter one that is left, or one whose end the folder has."""
    made = {key: _num_steps(left[first]) for key, first in waits_for(left.values()).items()}
    found = ends(store.list(layout.CONTINUATIONS)) if store else []
    for key, spec in left.items():
        begins = prefix_id(spec)
        there = [end.step for end in found if end.prefix_id == begins and end.step <= _num_steps(spec)]
        made[key] = max([made.get(key, 0), *there])
    return made


def _num_steps(spec: TrialSpec) -> int:
    assert spec.training is not None, "what begins as another is trained"
    return spec.training.steps


@dataclass(frozen=True, kw_only=True)
class End:
    """A training as it stood after its last step, in the sweep folder. `is_longest`: of those that begin alike."""

    prefix_id: str
    step: int
    is_longest: bool

    @property
    def prefix(self) -> str:
        """Its folder."""
        return layout.end_prefix(self.prefix_id, self.step)


def ends(keys: Iterable[str]) -> list[End]:
    """Those among the keys of a sweep folder."""
    steps: dict[str, set[int]] = {}
    for key in keys:
        match key.split("/"):
            case [layout.CONTINUATIONS, begins, step, *_]:
                steps.setdefault(begins, set()).add(int(step))
    return [
        End(prefix_id=begins, step=step, is_longest=step == max(found))
        for begins, found in sorted(steps.items())
        for step in sorted(found)
    ]


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """What trials of a sweep are still to be trained, and what only samples of its searches were, by `prefix_id`."""

    to_train: frozenset[str]
    only_sampled: frozenset[str]

    def may_be_awaited(self, end: End) -> bool:
        """Whether a trial that begins so is still to be trained."""
        return end.prefix_id in self.to_train

    def is_needless(self, end: End) -> bool:
        """Whether neither a trial of the sweep, nor one of more steps that is asked for later, would go on from it."""
        return not self.may_be_awaited(end) and (end.prefix_id in self.only_sampled or not end.is_longest)


def remove_needless_ends(store: Store, record: SweepRecord) -> None:
    """Remove the ends that no trial goes on from, nor one of more steps that the sweep may yet ask for.

    Of trainings that begin alike the longest stays. Samples of searches leave nothing, as their weights go too. To be
    called by whoever holds the sweep's lock, when no trial runs.
    """
    if found := ends(store.list(layout.CONTINUATIONS)):
        needs = _needs(store, record)
        for end in found:
            if needs.is_needless(end):
                store.delete(end.prefix)


def end_findings(
    store: Store, keys: Iterable[str], record: SweepRecord, *, running: bool, drop: bool
) -> Iterator[Finding]:
    """What ends take. Those that are needless are left over; with `drop` all are that no trial is to go on from."""
    found = ends(keys)
    if running or not found:
        return
    needs, sizes = _needs(store, record), store.sizes(layout.CONTINUATIONS)
    for end in found:
        num_bytes = sum(size for key, size in sizes.items() if key.startswith(f"{end.prefix}/"))
        if needs.is_needless(end) or (drop and not needs.may_be_awaited(end)):
            yield Finding(
                severity="leftover",
                where=end.prefix,
                what="the end of a training that nothing goes on from",
                remedy="is deleted",
                num_bytes=num_bytes,
                cure=lambda end=end: store.delete(end.prefix),  # type: ignore[misc]
            )
        elif not needs.may_be_awaited(end):
            yield Finding(
                severity="note",
                where=end.prefix,
                what="the end of a training, from which one of more steps would go on",
                remedy="--drop-continuations --repair deletes it; more steps are then trained from the start",
                num_bytes=num_bytes,
            )


def _needs(store: Store, record: SweepRecord) -> _Needs:
    trials = {trial.trial_id for trial in record.trials}
    samples = {sample.trial_id for sample in planned_samples(store, record)} - trials
    begins = {key: found for key in trials | samples if (found := _begins(store, key))}
    return _Needs(
        to_train=frozenset(found for key, found in begins.items() if not _has_ended(store, key)),
        only_sampled=frozenset(begins[key] for key in samples & begins.keys())
        - frozenset(begins[key] for key in trials & begins.keys()),
    )


def _has_ended(store: Store, key: str) -> bool:
    """Whether a trial is trained, or a sample was pruned: it is trained no more."""
    if store.exists(layout.trial_rows(key)):
        return True
    status = _read(store, layout.status_key(layout.trial_prefix(key)), lambda data: layout.from_bytes(Status, data))
    return status is not None and status.state == "pruned"


def _begins(store: Store, key: str) -> str | None:
    spec = _read(store, layout.spec_key(layout.trial_prefix(key)), lambda data: from_json(TrialSpec, data))
    return prefix_id(spec) if spec else None


def _read(store: Store, key: str, parse: Callable[[bytes], _Record]) -> _Record | None:
    """A record that is there and whole; `orchestrator.doctor_rows` tells of damaged ones."""
    try:
        return parse(store.read(key))
    except (KeyError, UnreadableError):
        return None
