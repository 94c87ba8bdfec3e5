"""Run a sweep file: lock its folder, plan, place what is left, mirror it to MLflow, show what it found."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.events import Ended, Event, Listener, Started, Stepped
from orchestrator.exports import export_all
from orchestrator.interrupt import Interrupt, interruptible
from orchestrator.labels import provenance_tags
from orchestrator.machine import available_cpus
from orchestrator.meaning import meaning_problems
from orchestrator.not_run import not_run_problems
from orchestrator.only import parse_only
from orchestrator.plan import Plan, make_plan, sweep_record
from orchestrator.program import command
from orchestrator.progress import progress_of, shown
from orchestrator.resolve import Resolved, resolve
from orchestrator.show import print_notices, print_results
from orchestrator.storage import storage_of
from orchestrator.terminal import chatter_to
from results import layout
from results.layout import Status, SweepRecord
from results.store import Lock, LockedError, LostLockError, Store, open_store
from search_spaces.problems import InputError, Problem
from search_spaces.schema import ResourcesBlock
from search_spaces.specs import evaluation_for, to_json
from trainers.provenance import provenance

if TYPE_CHECKING:
    from orchestrator.tracking import Tracking

_STALE_AFTER_S = 30.0
EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130  # 2 is for input, see `orchestrator.cli`


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for: the sweep file, the sweep folder if not the file's own, where to print, what part."""

    path: Path
    storage: str | None
    console: Console
    only: str | None = None
    memory_budget: str | None = None


def run_sweep(request: Request) -> int:
    """Run what a sweep file has left to do and print the tables; returns the exit code.

    Raises:
        InputError: the file, its data or its folder cannot be used, or the sweep is running already; nothing started.
    """
    with request.console.status("reading weights and data"):
        resolved = resolve(request.path, request.only, memory_budget=request.memory_budget)
    if problems := list(not_run_problems(resolved.sweep, resolved.where)):
        raise InputError(problems)
    only = parse_only(request.only, resolved.expansion)
    uri = storage_of(resolved.sweep, request.storage)
    store = open_store(uri)
    with locked(store, uri) as lock:
        plan = make_plan(resolved, store, only)
        if problems := list(meaning_problems(plan, store)):
            raise InputError(problems)
        print_notices(plan, request.console)
        if plan.is_finished and _recorded(store) == sweep_record(plan) and _is_mirrored(plan, store):
            request.console.print(_all_done(plan), markup=False)
            print_results(store, sweep_record(plan), request.console)
            return EXIT_OK
        try:
            return _run_left(plan, store, lock, request, resolved)
        except LostLockError as error:
            request.console.print(f"Stopped: another run took this sweep over ({error})", markup=False)
            return EXIT_FAILED


def _all_done(plan: Plan) -> str:
    part = f" with {plan.only}" if plan.only.wanted else ""
    num_trials, num_probes = (sum(plan.only.takes(i.spec) for i in items) for items in (plan.trials, plan.probes))
    done = f"{num_trials} trials and {num_probes} probes{part}"
    return f"Nothing is left to run: {done} of '{plan.sweep.name}' are finished."


@contextmanager
def locked(store: Store, uri: str) -> Iterator[Lock]:
    """Hold the sweep's lock. Raises InputError where a live run holds it."""
    try:
        lock = store.lock(
            layout.SWEEP_LOCK, owner=f"{socket.gethostname()}:{os.getpid()}", stale_after_s=_STALE_AFTER_S
        )
    except LockedError as error:
        message = f"this sweep is running already ({error}); see how it goes with: {command('status', uri)}"
        raise InputError([Problem(where=uri, key="", message=message)]) from error
    try:
        yield lock
    finally:
        lock.release()


def _run_left(plan: Plan, store: Store, lock: Lock, request: Request, resolved: Resolved) -> int:
    """Place everything that is left; the terminal shows progress, and libraries' own output goes to a log file."""
    _write_record(plan, store, request.path)
    log = log_file(store)
    with chatter_to(log) as screen:
        screen.print(f"Sweep '{plan.sweep.name}' in {store.uri}; libraries' own output is in {log}")
        interrupted = _place_and_mirror(plan, store, lock, screen, log)
    after = make_plan(resolved, store, plan.only)
    if interrupted:
        again = [str(request.path), *(["--only", str(plan.only)] if plan.only.wanted else [])]
        request.console.print(f"Stopped. To go on where it stopped: {command('run', *again)}")
        return EXIT_INTERRUPTED
    print_results(store, sweep_record(after), request.console)
    return EXIT_OK if after.is_finished else EXIT_FAILED


def _is_mirrored(plan: Plan, store: Store) -> bool:
    """Whether MLflow has all of a finished sweep, so that there is nothing to send."""
    from orchestrator.tracking import mirror_is_whole, place_of

    place = place_of(store, plan.sweep.tracking.uri, where=plan.where)
    return place is None or mirror_is_whole(store, place)


def _place_and_mirror(plan: Plan, store: Store, lock: Lock, screen: Console, log: Path) -> bool:
    tracking = _open_tracking(plan, store, log)
    progress = progress_of(plan, screen)
    listener = _fan_out(progress, *([_mirrored(plan, tracking)] if tracking else []))

    def say_stopping() -> None:
        screen.print("Stopping after the steps under way (Ctrl-C again: at once) ...")

    with interruptible(say_stopping) as interrupt:
        try:
            with shown(progress):
                ended_early = _place(plan, store, lock, listener, interrupt)
        finally:
            lock.verify()  # whoever took the sweep over mirrors it too
            if tracking:
                _end_tracking(tracking, plan, store, interrupt, screen)
        if ended_early:
            screen.print(f"Stopped: {ended_early}", markup=False)
    return interrupt.asked


def _cpus_for(resources: ResourcesBlock) -> int:
    """The CPUs to give to trials: as many as run at once may use."""
    wanted = resources.at_once * resources.devices * resources.cpus if resources.at_once else available_cpus()
    return min(wanted, available_cpus())


def _place(plan: Plan, store: Store, lock: Lock, listener: Listener, interrupt: Interrupt) -> str | None:
    """Run what is left on Ray; nothing is started where nothing is. Returns why it ended early, if it did."""
    if plan.is_finished:
        return None
    from orchestrator.placing import Work, place

    left = plan.trials_left
    work = Work(
        store_uri=store.uri,
        lock_token=lock.token,
        trials=[t.trial_id for t in left if not t.is_trained_together],
        groups=[t.trial_id for t in left if t.is_trained_together],
        probes=[p.probe_id for p in plan.probes_left],
        num_cpus=_cpus_for(plan.sweep.resources),
        resources=plan.sweep.resources,
        checkpoints=plan.sweep.checkpoints,
    )

    def record_failure(key: str, reason: str) -> Status:
        if _is_lost(lock):  # the trial is another driver's now, and so is its status
            interrupt.asked = True
            return Status(state="failed", reason="another run took this sweep over", started_at=_now())
        return _record_failure(plan, store, key, reason)

    return place(work, listener, interrupt, record_failure)


def _is_lost(lock: Lock) -> bool:
    try:
        lock.verify()
    except LostLockError:
        return True
    return False


def _fan_out(*listeners: Callable[[Event], None]) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell


def _recorded(store: Store) -> SweepRecord | None:
    return (
        layout.from_bytes(SweepRecord, store.read(layout.SWEEP_RECORD)) if store.exists(layout.SWEEP_RECORD) else None
    )


def _write_record(plan: Plan, store: Store, path: Path) -> None:
    """Write what workers, `status` and `tables` read: the file, what it expanded to, and every spec."""
    store.write(layout.SWEEP_FILE, path.read_bytes())
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(plan)))
    for trial in plan.trials:
        evaluations = [evaluation_for(trial.spec.encoder, e.spec) for e in plan.evaluations]
        store.write(layout.spec_key(layout.trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
        store.write(layout.evaluations_key(trial.trial_id), layout.evaluations_to_bytes(evaluations))
    for probe in plan.probes:
        store.write(layout.spec_key(layout.probe_prefix(probe.probe_id)), to_json(probe.spec).encode())


def log_file(store: Store, what: str = "run") -> Path:
    """The log of this run: beside the sweep where that is a local folder."""
    name = f"{what}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    return Path(store.uri) / "logs" / name


def _prefix(plan: Plan, key: str) -> str:
    is_trial = any(t.trial_id == key for t in plan.trials)
    return layout.trial_prefix(key) if is_trial else layout.probe_prefix(key)


def _record_failure(plan: Plan, store: Store, key: str, reason: str) -> Status:
    """Write the status of a trial or probe whose worker could not do so itself."""
    status_key = layout.status_key(_prefix(plan, key))
    now = _now()
    before = layout.from_bytes(Status, store.read(status_key)) if store.exists(status_key) else None
    started = before or Status(state="running", started_at=now)
    status = replace(started, state="failed", reason=reason, finished_at=now)
    store.write(status_key, layout.to_bytes(status))
    return status


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _open_tracking(plan: Plan, store: Store, log: Path) -> "Tracking | None":
    from orchestrator.tracking import Tracking, place_of, sweep_id

    place = place_of(store, plan.sweep.tracking.uri, where=plan.where)
    if place is None:
        return None
    tags = provenance_tags(provenance().to_json())  # of runs whose rows do not say what made them: failed ones
    return Tracking.open(store, sweep_record(plan), place, sweep_id=sweep_id(store), log_file=log, tags=tags)


def _mirrored(plan: Plan, tracking: "Tracking") -> Callable[[Event], None]:
    specs = {t.trial_id: t.spec for t in plan.trials} | {p.probe_id: p.spec for p in plan.probes}

    def tell(event: Event) -> None:
        match event:
            case Started(key=key):
                tracking.start(key, specs[key])
            case Stepped(key=key, history=history):
                tracking.log_steps(key, history)
            case Ended(key=key):
                tracking.finish(key)

    return tell


def _part_is_finished(plan: Plan, store: Store) -> bool:
    """Whether a part was asked for, and all of that ended well: what is missing is of the rest."""
    keys = [*(t.trial_id for t in plan.trials_left), *(p.probe_id for p in plan.probes_left)]
    stored = [layout.status_key(_prefix(plan, key)) for key in keys]
    ended = [layout.from_bytes(Status, store.read(key)).state for key in stored if store.exists(key)]
    return bool(plan.only.wanted) and len(ended) == len(keys) and set(ended) <= {"finished"}


def _end_tracking(tracking: "Tracking", plan: Plan, store: Store, interrupt: Interrupt, screen: Console) -> None:
    try:
        if not interrupt.asked:
            summary = export_all(store, sweep_record(plan))
            is_done = not summary.num_missing or _part_is_finished(plan, store)
            tracking.finish_sweep("finished" if is_done else "failed", summary)
    finally:
        with screen.status("sending the last runs to MLflow"):
            tracking.close()
    if tracking.behind:
        behind = f"MLflow lacks something ({tracking.behind}); nothing is lost, this sends it:"
        screen.print(f"{behind} {command('sync', store.uri)}", markup=False, soft_wrap=True)
