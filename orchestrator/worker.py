"""What a Ray worker does for one trial or probe: open the store, run it, report to the driver at a bounded rate."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from orchestrator.events import Ended, EnteredPhase, Event, Stepped
from orchestrator.spare_workers import SpareWorkers, Sweep
from results.clock import utc_now
from results.layout import (
    SWEEP_LOCK,
    SWEEP_RECORD,
    Status,
    SweepRecord,
    from_bytes,
    pool_prefix,
    probe_prefix,
    spec_key,
    status_key,
    to_bytes,
    trial_prefix,
)
from results.locks import verify_token
from results.store import LostLockError, Store, open_store
from results.waiting_store import WaitingStore
from search_spaces.specs import EvaluationSpec, ProbeSpec, from_json
from trainers.attempts import Attempt
from trainers.evaluation.pool_building import Building, build_parts, publish
from trainers.evaluation.pools import contributors
from trainers.failures import reason_of
from trainers.fisher.probe import run_probe
from trainers.provenance import provenance
from trainers.threads import set_threads
from trainers.training.history import StepReport
from trainers.training.processes import LostPeerError
from trainers.training.resume import CheckpointPolicy
from trainers.trial import Part, join_trial, planned_trial, run_planned_trial
from trainers.trial_hooks import Hooks

_REPORT_EVERY_S = 1.0  # a report costs a round trip to the driver, which must not slow fast steps


class _Reporter:
    """Gathers what a trial reports and hands it to Tune at most once a second; validations and phases at once."""

    def __init__(self, key: str, send: Callable[[dict[str, Any]], None]) -> None:
        self._key = key
        self._send = send
        self._history: list[Mapping[str, Any]] = []
        self._sent = time.monotonic()

    def step(self, report: StepReport) -> None:
        """Keep a step's row, and send what is kept when a second has passed or it was validated."""
        self._history.append(report.history_row)
        # What a search decides by is told at once.
        is_validated = report.numbers.validation_score is not None
        if is_validated or time.monotonic() - self._sent >= _REPORT_EVERY_S:
            self._flush([])

    def phase(self, name: str) -> None:
        """The trial goes on to another part of its work."""
        self._flush([EnteredPhase(key=self._key, phase=name)])

    def end(self, status: Status) -> None:
        """The trial is over."""
        self._flush([Ended(key=self._key, status=status)])

    def _flush(self, events: list[Event]) -> None:
        steps = [Stepped(key=self._key, history=tuple(self._history))] if self._history else []
        self._history = []
        self._sent = time.monotonic()
        self._send({"events": [*steps, *events]})


def _verifier(store: Store, token: int) -> Callable[[], None]:
    """A check that the driver that placed this work still owns the sweep: its orphans must write nothing."""
    return lambda: verify_token(store, SWEEP_LOCK, token)


def _with_patience(store: Store, say: Callable[[str], None]) -> WaitingStore:
    """The sweep folder, whose writes wait for space as the sweep file says."""
    record = from_bytes(SweepRecord, store.read(SWEEP_RECORD))
    return WaitingStore(store, record.room, say)


def run_placed_trial(config: Mapping[str, Any], send: Callable[[dict[str, Any]], None], part: Part = "whole") -> Status:
    """Run the trial that Tune's config names; `send` reports to the driver. A failing trial ends with its status.

    Of its parts, 'training' reports no end but a failure.
    """
    reporter = _Reporter(config["trial_id"], send)
    store = _with_patience(open_store(config["store_uri"]), reporter.phase)
    verify = _verifier(store, config["lock_token"])
    status = run_planned_trial(
        config["trial_id"],
        store=store,
        hooks=Hooks(
            report=reporter.step,
            enter_phase=reporter.phase,
            verify=verify,
            helpers=_spare_workers(config, store),
            wait_for_space=store.waiting.wait,
        ),
        checkpoint_policy=CheckpointPolicy(every_steps=config["every_steps"], every_s=config["every_s"]),
        provenance_json=provenance().to_json(),
        part=part,
    )
    if status.state != "running":
        reporter.end(status)
    return status


def _spare_workers(config: Mapping[str, Any], store: Store) -> SpareWorkers:
    """Helpers with as much of Ray's resources as this worker has."""
    sweep = Sweep(store_uri=config["store_uri"], lock_token=config["lock_token"])
    share = ray.get_runtime_context().get_assigned_resources()
    return SpareWorkers(sweep, config["trial_id"], planned_trial(config["trial_id"], store), share)


def join_placed_trial(config: Mapping[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """Take part in the trial whose first process runs it.

    Raises:
        Exception: whatever ended the training here. Where that is the trial's own fault, such as too little memory, it
            is sent first as the trial's end: the first process cannot know of it.
    """
    key, store = config["trial_id"], open_store(config["store_uri"])
    try:
        join_trial(planned_trial(key, store), store=store)
    except LostPeerError:
        raise
    except Exception as error:
        attempt = Attempt(store=store, prefix=trial_prefix(key), verify=_verifier(store, config["lock_token"]))
        _Reporter(key, send).end(attempt.failed_here(error))
        raise


def record_end(config: Mapping[str, Any], status: Status) -> None:
    """Write how a trial ended that one of its processes saw fail, now that none of them can write any more."""
    store = open_store(config["store_uri"])
    _verifier(store, config["lock_token"])()
    store.write(status_key(trial_prefix(config["trial_id"])), to_bytes(status))


def run_placed_pool_parts(store_uri: str, keys: Sequence[str], index: int, lock_token: int) -> Status:
    """Have one of the starting encoders of these pools, by its number, read the corpora; say how that ended."""
    store = _with_patience(open_store(store_uri), lambda _: None)
    evaluations = [from_json(EvaluationSpec, store.read(spec_key(pool_prefix(key)))) for key in keys]
    encoder = contributors(evaluations)[index]
    return _ended(lambda building: build_parts(encoder, evaluations, building), store, lock_token)


def run_placed_pool(store_uri: str, key: str, lock_token: int) -> Status:
    """Put a pool together of its parts; say how that ended."""
    store = _with_patience(open_store(store_uri), lambda _: None)
    evaluation = from_json(EvaluationSpec, store.read(spec_key(pool_prefix(key))))
    return _ended(lambda building: publish(evaluation, building), store, lock_token)


def _ended(build: Callable[[Building], None], store: Store, lock_token: int) -> Status:
    started_at = utc_now()
    try:
        build(Building(store=store, verify=_verifier(store, lock_token)))
    except LostLockError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary where a failure becomes what the driver is told
        return Status(state="failed", started_at=started_at, finished_at=utc_now(), reason=reason_of(error))
    return Status(state="finished", started_at=started_at, finished_at=utc_now())


def run_placed_probe(store_uri: str, key: str, lock_token: int) -> Status:
    """Run the probe whose spec lies in the store, and return its status."""
    store = _with_patience(open_store(store_uri), lambda _: None)
    spec = from_json(ProbeSpec, store.read(spec_key(probe_prefix(key))))
    set_threads(spec.execution.threads)
    return run_probe(spec, store, verify=_verifier(store, lock_token))
