"""`densesweep doctor`: show what is found in a sweep folder, and repair it where that was asked for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from orchestrator.doctor import examine
from orchestrator.findings import Finding
from orchestrator.program import command
from results.layout import SWEEP_LOCK, SweepRecord
from results.locks import LockState, state_of
from results.store import LockedError, Store
from search_spaces.problems import InputError, Problem
from search_spaces.shown_sizes import shown_size
from trainers.attempts import this_process

EXIT_SOUND, EXIT_FAULTS = 0, 1  # 2 is for input, see `orchestrator.cli`
_STALE_AFTER_S = 30.0
_ROUNDS = 3  # a repair may uncover more: without its damaged rows, a trial is not finished as its status says


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """What the user asked for."""

    repair: bool
    hashes: bool
    as_json: bool
    drop_continuations: bool


def run_doctor(store: Store, record: SweepRecord, request: DoctorRequest, console: Console) -> int:
    """Examine the folder, repair what can be where that is asked for, and show it; returns the exit code.

    0: nothing is to be done (any more). 1: something is.

    Raises:
        InputError: the sweep is running, and a repair was asked for.
    """
    state = state_of(store, SWEEP_LOCK)
    repaired: list[Finding] = []
    if request.repair:
        left, repaired = _repaired(store, record, state, request)
    else:
        left = _found(store, record, state, request)
    if request.as_json:
        print(json.dumps([*(_plain(f, True) for f in repaired), *(_plain(f, False) for f in left)], indent=2))
    else:
        _print(store, left, repaired, state, console)
    return EXIT_FAULTS if any(finding.is_fault for finding in left) else EXIT_SOUND


def _found(store: Store, record: SweepRecord, lock: LockState, request: DoctorRequest) -> list[Finding]:
    drop = request.drop_continuations
    return list(examine(store, record, lock=lock, hashes=request.hashes, drop_continuations=drop))


def _repaired(
    store: Store, record: SweepRecord, state: LockState, request: DoctorRequest
) -> tuple[list[Finding], list[Finding]]:
    """What is left, and what was repaired, under the sweep's lock."""
    try:
        lock = store.lock(SWEEP_LOCK, owner=this_process(), stale_after_s=_STALE_AFTER_S)
    except LockedError as error:
        message = f"this sweep is running ({error}), and is repaired when it is not"
        raise InputError([Problem(where=store.uri, key="--repair", message=message)]) from error
    try:
        left = _found(store, record, "stale" if state == "stale" else "free", request)
        repaired: list[Finding] = []
        for _ in range(_ROUNDS):
            curable = [finding for finding in left if finding.cure]
            if not curable:
                break
            for finding in curable:
                lock.verify()
                assert finding.cure
                finding.cure()
            repaired += curable
            left = _found(store, record, "free", request)
    finally:
        lock.release()
    return left, repaired


def _plain(finding: Finding, repaired: bool) -> dict[str, str | int | bool]:
    return {
        "severity": finding.severity,
        "where": finding.where,
        "what": finding.what,
        "remedy": finding.remedy,
        "num_bytes": finding.num_bytes,
        "can_be_repaired": finding.cure is not None,
        "repaired": repaired,
    }


def _print(
    store: Store, left: Sequence[Finding], repaired: Sequence[Finding], state: LockState, console: Console
) -> None:
    for title, findings in (("Repaired", repaired), ("Found", left)):
        if findings:
            console.print(_table(title, findings))
    if state == "held":
        console.print("The sweep is running: what it has under way was not looked at.")
    faults = [finding for finding in left if finding.is_fault]
    if not faults:
        console.print(f"{store.uri} is sound." if not repaired else f"{store.uri} is sound again.", markup=False)
        return
    freed = sum(finding.num_bytes for finding in faults if finding.cure)
    if any(finding.cure for finding in faults):
        frees = f" (frees {shown_size(freed)})" if freed else ""
        console.print(f"To repair{frees}: {command('doctor', store.uri, '--repair')}", markup=False, soft_wrap=True)
    if any(finding.severity == "missing" for finding in faults):
        console.print("To make what is missing, run the sweep file again.")


def _table(title: str, findings: Sequence[Finding]) -> Table:
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for header in ("severity", "where", "what", "size", "remedy"):
        grid.add_column(header, overflow="fold")
    for finding in findings:
        size = shown_size(finding.num_bytes) if finding.num_bytes else ""
        grid.add_row(finding.severity, finding.where, finding.what, size, finding.remedy)
    return grid
