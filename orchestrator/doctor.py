"""Examine a sweep folder: is it what its records say, and what was left over."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.continuations import end_findings
from orchestrator.doctor_rows import record_findings, row_findings
from orchestrator.doctor_runs import run_findings
from orchestrator.doctor_trials import (
    checkpoint_findings,
    history_findings,
    leftover_findings,
    missing_findings,
    stranger_findings,
    trained_trials,
)
from orchestrator.findings import Finding
from orchestrator.stale_runs import stale_run_findings
from results.layout import SWEEP_LOCK, SweepRecord, study_key
from results.locks import LockState
from results.store import Store

Row = Mapping[str, Any]


def examine(
    store: Store, record: SweepRecord, *, lock: LockState, hashes: bool, drop_continuations: bool = False
) -> Iterator[Finding]:
    """Everything that there is to say of the folder. Nothing is changed.

    While the sweep runs (`lock` is held), only what a run never has for a moment is looked at.

    Args:
        store: the sweep folder.
        record: its record.
        lock: how the sweep's lock stands.
        hashes: whether checkpoints are read whole and compared with their hashes.
        drop_continuations: whether what a training of more steps would go on from is left over.
    """
    running = lock == "held"
    keys = store.list("")
    trained = trained_trials(store, keys)
    if lock == "stale":
        yield Finding(
            severity="stale",
            where=f"lock '{SWEEP_LOCK}'",
            what="its owner is dead, and did not give it back",
            remedy="is given back; a run would take it over too",
            cure=lambda: None,  # whoever repairs holds it, and gives it back
        )
    broken = [*row_findings(store, keys), *record_findings(store, keys), *history_findings(store, trained)]
    sound = _without(trained, broken)
    if hashes:
        broken += checkpoint_findings(store, sound)
        sound = _without(sound, broken)
    yield from broken
    yield from run_findings(store, keys, sound)
    yield from missing_findings(store, record, sound, _identities(broken), running)
    yield from leftover_findings(store, keys, sound, running)
    readable = _with_readable_studies(record, broken)
    yield from end_findings(store, keys, readable, running=running, drop=drop_continuations)
    if readable == record:  # else nobody knows which trials are samples of the others
        yield from stranger_findings(store, record)
    if not running:
        yield from stale_run_findings(store, record)


def _with_readable_studies(record: SweepRecord, broken: Iterable[Finding]) -> SweepRecord:
    damaged = {finding.where for finding in broken}
    return replace(record, studies=tuple(s for s in record.studies if study_key(s.study_id) not in damaged))


def _without(trained: Mapping[str, Row], broken: Iterable[Finding]) -> dict[str, Row]:
    """What is repaired of a broken trial is all of it: nothing more is to be said, or done, of its parts."""
    return {identity: row for identity, row in trained.items() if identity not in _identities(broken)}


def _identities(broken: Iterable[Finding]) -> set[str]:
    """The trials and probes that findings are of."""
    places = [finding.where.split("/") for finding in broken if finding.severity == "broken"]
    return {place[1] for place in places if place[0] in ("trials", "probes")}
