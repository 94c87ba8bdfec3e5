"""Run a sweep file: lock its folder, plan, place what is left, mirror it to MLflow, show what it found."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from orchestrator.continuations import remove_needless_ends
from orchestrator.doctor_rows import forget_training
from orchestrator.events import Ended, Event, Planned, Started, Stepped
from orchestrator.exports import export_all
from orchestrator.interrupt import Interrupt, interruptible
from orchestrator.labels import provenance_tags
from orchestrator.meaning import meaning_problems
from orchestrator.only import parse_only
from orchestrator.plan import Plan, asked_of, is_known, make_plan, room_of, sweep_record
from orchestrator.probes_alone import forgotten_problems, unprobed_problems
from orchestrator.program import command
from orchestrator.progress import progress_of, shown
from orchestrator.resolve import Resolved, resolve
from orchestrator.reuse import reuse_finished
from orchestrator.reuse_folders import opened_sources
from orchestrator.running import Told, Where, run_left, spending_of
from orchestrator.show import print_notices
from orchestrator.show_overview import print_results
from orchestrator.space_notice import SpaceNotice
from orchestrator.storage import storage_of
from orchestrator.terminal import chatter_to
from results import layout
from results.layout import SweepRecord
from results.listed import listed
from results.store import Lock, LockedError, LostLockError, Store, local_folder, open_store
from results.waiting_store import WaitingStore
from search_spaces.problems import InputError, Problem
from search_spaces.specs import ProbeSpec, TrialSpec, to_json
from trainers.cache import cache_folder
from trainers.provenance import provenance

if TYPE_CHECKING:
    from orchestrator.tracking import Tracking

_STALE_AFTER_S = 30.0
EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130  # 2 is for input, see `orchestrator.cli`


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for: the file, its folder if not the file's own, what part, where to print and to run.

    Attributes:
        path: the sweep file.
        storage: the sweep folder, where it is not the file's own.
        console: takes lines for people.
        where: the cluster.
        only: a part of the cells.
        memory_budget: of each search, instead of the file's.
        kinds: what is run of these cells, as of `orchestrator.only.Only`; None is everything.
        show: prints what the sweep showed, once it has run.
        again_as: how the command begins that goes on.
    """

    path: Path
    storage: str | None
    console: Console
    where: Where
    only: str | None = None
    memory_budget: str | None = None
    tracking: str | None = None
    kinds: frozenset[str] | None = None
    show: Callable[[Store, SweepRecord, Console], None] = print_results
    again_as: tuple[str, ...] = ("run",)

    @property
    def again(self) -> str:
        """The command that goes on with the sweep."""
        options = {
            "--storage": self.storage,
            "--only": self.only,
            "--address": self.where.address,
            "--memory-budget": self.memory_budget,
            "--tracking": self.tracking,
        }
        return command(
            *self.again_as, str(self.path), *(part for item in options.items() if item[1] for part in item if part)
        )


def run_sweep(request: Request) -> int:
    """Run what a sweep file has left to do and print the tables; returns the exit code.

    Raises:
        InputError: the file, its data or its folder cannot be used, or the sweep is running already; nothing started.
    """

    def stop() -> NoReturn:
        raise KeyboardInterrupt

    def end() -> NoReturn:
        request.console.show_cursor()
        request.console.print(f"Stopped at once. To go on: {request.again}", markup=False)
        os._exit(EXIT_INTERRUPTED)

    # While trials run, another handler lets them end their steps; before and after, nothing is lost by ending here.
    with interruptible(stop, end):
        try:
            return _run_sweep(request)
        except KeyboardInterrupt:
            request.console.print(_stopped(request), markup=False)
            return EXIT_INTERRUPTED


def _stopped(request: Request) -> str:
    return f"Stopped. To go on where it stopped: {request.again}"


def _run_sweep(request: Request) -> int:
    with request.console.status("reading weights and data"):
        resolved = resolve(
            request.path,
            request.only,
            kinds=request.kinds,
            memory_budget=request.memory_budget,
            tracking=request.tracking,
            runs_here=request.where.address is None,
        )
    only = parse_only(request.only, resolved.expansion, request.kinds)
    if problems := list(unprobed_problems(only, resolved)):
        raise InputError(problems)
    uri = storage_of(resolved.sweep, request.storage)
    store = WaitingStore(open_store(uri), room_of(resolved.sweep.checkpoints), _to(request.console))
    sources = opened_sources(resolved.sweep.reuse, resolved.where)
    with locked(store, uri) as lock:
        plan = make_plan(resolved, store, only)
        if problems := [*meaning_problems(plan, store), *forgotten_problems(plan)]:
            raise InputError(problems)
        print_notices(plan, request.console)
        if sources and not plan.is_finished:
            for reused in reuse_finished(plan, store, sources, lock):
                request.console.print("\n".join([str(reused), *reused.notices]), markup=False, highlight=False)
            plan = make_plan(resolved, store, only)
        if plan.is_finished and _is_recorded(plan, store) and _is_mirrored(plan, store):
            request.console.print(_all_done(plan), markup=False)
            request.show(store, sweep_record(plan), request.console)
            return EXIT_OK
        try:
            return _run_left(plan, store, lock, request, resolved)
        except LostLockError as error:
            request.console.print(f"Stopped: another run took this sweep over ({error})", markup=False)
            return EXIT_FAILED


def _to(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False)


def _all_done(plan: Plan) -> str:
    part = f" with {plan.only}" if plan.only.wanted else ""
    num_trials, num_probes = (sum(plan.only.takes(i.spec) for i in items) for items in (plan.trials, plan.probes))
    trials = f"{num_trials} trials and " if plan.only.takes_checkpoints else ""
    done = f"{trials}{num_probes} probes{part}"
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


@dataclass(frozen=True, kw_only=True)
class _Left:
    """What is left of a sweep, to be placed, shown and mirrored: `screen` takes lines for people, `log` all else."""

    plan: Plan
    store: WaitingStore
    lock: Lock
    request: Request
    resolved: Resolved
    screen: Console
    log: Path

    def end(self, why: str, exit_code: int) -> NoReturn:
        """Nothing that waits for Ray may ever come back, so the process cannot end as it should."""
        self.lock.release()
        self.screen.show_cursor()
        self.screen.print(f"Stopped{why}. To go on: {self.request.again}", markup=False)
        os._exit(exit_code)


def _run_left(plan: Plan, store: WaitingStore, lock: Lock, request: Request, resolved: Resolved) -> int:
    """Place everything that is left; the terminal shows progress, and libraries' own output goes to a log file."""
    _write_record(plan, store, request.path)
    log = log_file(store)
    try:
        with chatter_to(log, screen_on="stderr" if request.console.stderr else "stdout") as screen:
            screen.print(f"Sweep '{plan.sweep.name}' in {store.uri}; libraries' own output is in {log}")
            after, interrupted = _place_and_mirror(
                _Left(plan=plan, store=store, lock=lock, request=request, resolved=resolved, screen=screen, log=log)
            )
    finally:
        keep_log(store, log)
    if interrupted:
        request.console.print(_stopped(request), markup=False)
        return EXIT_INTERRUPTED
    request.show(store, sweep_record(after), request.console)
    return EXIT_OK if after.is_finished else EXIT_FAILED


def _is_mirrored(plan: Plan, store: Store) -> bool:
    """Whether MLflow has all of a finished sweep, so that there is nothing to send."""
    from orchestrator.tracking import mirror_is_whole, place_of

    place = place_of(store, plan.sweep.tracking.uri, where=plan.where)
    return mirror_is_whole(store, place)


def _place_and_mirror(left: _Left) -> tuple[Plan, bool]:
    """Returns how the sweep stands afterwards, and whether the user stopped it."""
    store, screen = left.store, left.screen

    def say_stopping() -> None:
        screen.print("Stopping after the steps under way (Ctrl-C again: at once) ...")

    with interruptible(say_stopping, lambda: left.end(" at once", EXIT_INTERRUPTED)) as interrupt:
        tracking = _open_tracking(left.plan, store, left.log)
        ended_early = None
        try:
            ended_early = _place(left, tracking, interrupt)
        finally:
            left.lock.verify()  # whoever took the sweep over mirrors it too
            after = _record_again(make_plan(left.resolved, store, left.plan.only), store)
            _end_tracking(tracking, after, store, interrupt, screen)
        if line := _early_end(ended_early, after, left.request.again):
            screen.print(line, markup=False)
    return after, interrupt.asked


def _place(left: _Left, tracking: "Tracking", interrupt: Interrupt) -> str | None:
    """Run what is left and tell everybody of it; returns why it ended early, if it did."""
    plan, store, say = left.plan, left.store, _to(left.screen)
    progress = progress_of(plan, left.screen)
    spending = spending_of(plan, store, left.lock)

    def head_is_gone(address: str) -> NoReturn:
        spending.write_down()
        tracking.close()
        left.end(f": the head of the Ray cluster at {address} is gone", EXIT_FAILED)

    told = Told(
        listener=_fan_out(progress, spending, SpaceNotice(store, say), _mirrored(plan, tracking)),
        say=say,
        end=head_is_gone,
    )
    with shown(progress):
        return run_left(
            plan, store, left.lock, where=left.request.where, told=told, spending=spending, interrupt=interrupt
        )


def _record_again(after: Plan, store: Store) -> Plan:
    """Write the record with what searches led to, and remove what it does not need; returns the plan."""
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(after)))
    remove_needless_ends(store, sweep_record(after))
    return after


def _early_end(reason: str | None, after: Plan, again: str) -> str | None:
    """The line on why a run ended early; a budget that the last trial used up ended nothing early."""
    return f"Stopped: {reason}. To go on: {again}" if reason and not after.is_finished else None


def _fan_out(*listeners: Callable[[Event], None]) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell


def _is_recorded(plan: Plan, store: Store) -> bool:
    """Whether all that `_write_record` writes is there; `doctor` may have removed what was damaged."""
    keys = [layout.spec_key(layout.probe_prefix(p.probe_id)) for p in plan.probes]
    for trial in plan.trials:
        keys += [layout.spec_key(layout.trial_prefix(trial.trial_id)), layout.evaluations_key(trial.trial_id)]
    there = listed(store)
    return _recorded(store) == sweep_record(plan) and all(there.exists(key) for key in keys)


def _recorded(store: Store) -> SweepRecord | None:
    return (
        layout.from_bytes(SweepRecord, store.read(layout.SWEEP_RECORD)) if store.exists(layout.SWEEP_RECORD) else None
    )


def _write_record(plan: Plan, store: Store, path: Path) -> None:
    """Write what workers, `status` and `tables` read: the file, what it expanded to, and every spec."""
    store.write(layout.SWEEP_FILE, path.read_bytes())
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(plan)))
    for trial in plan.trials:
        evaluations = asked_of(trial.spec, [e for e in plan.evaluations if is_known(e.spec)])
        if trial.state == "left" and plan.only.takes(trial.spec) and store.exists(layout.trial_rows(trial.trial_id)):
            forget_training(store, trial.trial_id)  # its checkpoint is gone
        store.write(layout.spec_key(layout.trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
        store.write(layout.evaluations_key(trial.trial_id), layout.evaluations_to_bytes(evaluations))
    for pool in plan.pools:
        store.write(layout.spec_key(layout.pool_prefix(pool.pool_id)), to_json(pool.spec).encode())
    for probe in plan.probes:
        store.write(layout.spec_key(layout.probe_prefix(probe.probe_id)), to_json(probe.spec).encode())


def log_file(store: Store, what: str = "run") -> Path:
    """The log of this run: in the sweep folder, or in the cache folder, from where `keep_log` brings it there."""
    name = f"{what}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    return (local_folder(store.uri) or cache_folder().absolute()) / "logs" / name


def keep_log(store: Store, log: Path) -> None:
    """Bring a log into a sweep folder that is not local."""
    if local_folder(store.uri) is None and log.exists():
        store.write(f"logs/{log.name}", log.read_bytes())


def _open_tracking(plan: Plan, store: Store, log: Path) -> "Tracking":
    from orchestrator.tracking import Tracking, place_of, sweep_id

    place = place_of(store, plan.sweep.tracking.uri, where=plan.where)
    tags = provenance_tags(provenance().to_json())  # of runs whose rows do not say what made them: failed ones
    return Tracking.open(store, sweep_record(plan), place, sweep_id=sweep_id(store), log_file=log, tags=tags)


def _mirrored(plan: Plan, tracking: "Tracking") -> Callable[[Event], None]:
    specs: dict[str, TrialSpec | ProbeSpec] = {t.trial_id: t.spec for t in plan.trials}
    specs |= {p.probe_id: p.spec for p in plan.probes}

    def tell(event: Event) -> None:
        if isinstance(event, Planned):
            specs[event.key] = event.spec
        if event.key not in specs:  # pools, and what builds them, are no runs
            return
        match event:
            case Started(key=key):
                tracking.start(key, specs[key])
            case Stepped(key=key, history=history):
                tracking.log_steps(key, history)
            case Ended(key=key):
                tracking.finish(key)

    return tell


def _end_tracking(tracking: "Tracking", plan: Plan, store: Store, interrupt: Interrupt, screen: Console) -> None:
    try:
        if not interrupt.asked:
            summary = export_all(store, sweep_record(plan))
            # Of a part that is finished, what is missing is of the rest.
            is_done = not summary.num_missing or (not plan.only.is_all and plan.is_finished)
            tracking.finish_sweep("finished" if is_done else "failed", summary)
    finally:
        with screen.status("sending the last runs to MLflow"):
            tracking.close()
    if tracking.behind:
        behind = f"MLflow lacks something ({tracking.behind}); nothing is lost, this sends it:"
        screen.print(f"{behind} {command('sync', store.uri)}", markup=False, soft_wrap=True)
