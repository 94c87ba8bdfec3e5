"""What is wrong with the trials and probes of a sweep folder: checkpoints, missing rows, what was left over."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from orchestrator.doctor_rows import forget_training, row_fault
from orchestrator.findings import Finding
from results import layout
from results.asked import asked_answers, asked_evaluations, asked_norms, asked_runs
from results.layout import Status, SweepRecord
from results.rows import read_rows
from results.store import Store
from results.studies import planned_samples
from search_spaces.problems import InputError, UnreadableError

_RUN_AGAIN = "the next run makes it"
_TRAIN_AGAIN = "the trial's row and checkpoint are deleted, and the next run trains it again"


def trained_trials(store: Store, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The rows of all trained trials in the folder that can be read, by identity."""
    found: dict[str, Mapping[str, Any]] = {}
    for key in keys:
        if key.startswith("trials/") and key.endswith("/trial.parquet") and not row_fault(store, key, "trials"):
            [found[key.split("/")[1]]] = read_rows(store, key, "trials").to_pylist()
    return found


def checkpoint_findings(store: Store, trained: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Checkpoints that are not what their trial's row says: every file is read."""
    for identity, row in trained.items():
        fault = _checkpoint_fault(store, identity, row["checkpoint_hash"])
        if fault is None:
            continue
        key = layout.checkpoint_prefix(identity)
        if fault == _REMOVED and not _lacking(store, row):
            remedy = "nothing needs it, until the sweep is evaluated on more"
            yield Finding(severity="note", where=key, what=fault, remedy=remedy)
            continue
        yield Finding(severity="broken", where=key, what=fault, remedy=_TRAIN_AGAIN, cure=_forgetting(store, identity))


_REMOVED = "there is no checkpoint"


def _checkpoint_fault(store: Store, identity: str, recorded: str) -> str | None:
    from trainers.encoders.checkpoints import checkpoint_hash  # here, since it imports torch

    try:
        with store.get_folder(layout.checkpoint_prefix(identity)) as folder:
            found = checkpoint_hash(folder)
    except KeyError:
        return _REMOVED
    except (InputError, OSError, ValueError) as error:
        return f"damaged: {' '.join(str(error).split())}"
    if found != recorded:
        return f"its hash is {found[:12]}, where the trial's row says {recorded[:12]}: its files were changed"
    return None


def _forgetting(store: Store, identity: str) -> Callable[[], None]:
    return lambda: forget_training(store, identity)


def history_findings(store: Store, trained: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Trainings whose history is gone."""
    for identity, row in trained.items():
        key = layout.history_rows(identity)
        if row["steps"] is not None and not store.exists(key):
            what = "there is no history of its training"
            yield Finding(
                severity="broken", where=key, what=what, remedy=_TRAIN_AGAIN, cure=_forgetting(store, identity)
            )


def leftover_findings(
    store: Store, keys: Iterable[str], trained: Mapping[str, Mapping[str, Any]], running: bool
) -> Iterator[Finding]:
    """What takes space for nothing: cut-off writes, and what finished trials and evaluations were to remove.

    While the sweep is running, all of this may be at work.
    """
    if running:
        return
    for leftover in store.leftovers():
        yield Finding(
            severity="leftover",
            where=leftover.name,
            what="a write that was cut off",
            remedy="is deleted",
            num_bytes=leftover.num_bytes,
            cure=lambda leftover=leftover: store.remove_leftover(leftover),  # type: ignore[misc]
        )
    sizes = store.sizes("")
    for prefix, what in sorted(_needless(keys, store, trained)):
        taken = sum(size for key, size in sizes.items() if key.startswith(f"{prefix}/"))
        yield Finding(
            severity="leftover",
            where=prefix,
            what=what,
            remedy="is deleted",
            num_bytes=taken,
            cure=lambda prefix=prefix: store.delete(prefix),  # type: ignore[misc]
        )


def _needless(keys: Iterable[str], store: Store, trained: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    keys = list(keys)
    going_on = {row["checkpoint_hash"] for row in trained.values() if _lacking(store, row)}
    pools = {key.split("/")[1] for key in keys if key.startswith("pools/")}
    if any(layout.pool_rows(pool) not in keys for pool in pools):
        going_on.add(layout.POOLS)
    found = set()
    for key in keys:
        parts = key.split("/")
        if parts[0] == "trials" and len(parts) > 3 and parts[2] in ("steps", "best") and parts[1] in trained:
            found.add(("/".join(parts[:3]), "training checkpoints of a trained trial"))
        if parts[0] == "unfinished" and len(parts) > 2 and parts[1] not in going_on:
            found.add(("/".join(parts[:2]), "an interrupted evaluation or pool that nothing goes on with"))
    yield from found


def missing_findings(
    store: Store, record: SweepRecord, trained: Mapping[str, Mapping[str, Any]], broken: Set[str], running: bool
) -> Iterator[Finding]:
    """What the sweep asks for and the folder lacks, and statuses that say otherwise; `broken` trials are left out."""
    for trial in (*record.trials, *record.pilots):
        if trial.trial_id in broken:
            continue
        row = trained.get(trial.trial_id)
        lacking = [f"{len(found)} of its files"] if row and (found := _lacking(store, row)) else []
        if row is None:
            lacking = ["its checkpoint and rows"]
        yield from _unfinished(store, layout.trial_prefix(trial.trial_id), trial.title, lacking, running)
    for probe in record.probes:
        if probe.trial_id in broken:
            continue
        lacking = [] if store.exists(layout.probe_rows(probe.trial_id)) else ["its rows"]
        yield from _unfinished(store, layout.probe_prefix(probe.trial_id), probe.title, lacking, running)


def _unfinished(store: Store, prefix: str, title: str, lacking: list[str], running: bool) -> Iterator[Finding]:
    key = layout.status_key(prefix)
    status = _status(store, key)
    if running:
        return
    if lacking and status and status.state == "finished":
        what = f"{title}: its status says 'finished', but the folder lacks {lacking[0]}"
        yield Finding(
            severity="stale",
            where=prefix,
            what=what,
            remedy=f"its status is set to 'failed'; {_RUN_AGAIN}",
            cure=lambda: _mark(store, key, status, "files of it were missing (found by doctor)"),
        )
    elif lacking:
        state = "was interrupted" if status and status.state == "running" else status.state if status else "not run yet"
        reason = f" ({status.reason})" if status and status.reason else ""
        what = f"{title}: {state}{reason}; it lacks {lacking[0]}"
        yield Finding(severity="missing", where=prefix, what=what, remedy=_RUN_AGAIN)
    elif status and status.state == "running":
        yield Finding(
            severity="stale",
            where=prefix,
            what=f"{title}: its status says 'running', but all of it is there and nothing runs",
            remedy="its status is set to 'finished'",
            cure=lambda: store.write(key, layout.to_bytes(replace(status, state="finished"))),
        )


def _mark(store: Store, key: str, status: Status, reason: str) -> None:
    store.write(key, layout.to_bytes(replace(status, state="failed", reason=reason)))


def _status(store: Store, key: str) -> Status | None:
    try:
        return layout.from_bytes(Status, store.read(key))
    except (KeyError, UnreadableError):  # a damaged one is found apart
        return None


def _lacking(store: Store, row: Mapping[str, Any]) -> list[str]:
    """Keys that a trained trial is to have and has not: the list of its evaluations, their rows, and their runs."""
    planned = layout.evaluations_key(row["trial_id"])
    if not store.exists(planned):
        return [planned]
    some = (*asked_evaluations(store, row), *asked_answers(store, row), *asked_runs(store, row))
    asked = [rows.key for rows in some]
    return [key for key in dict.fromkeys([*asked, *asked_norms(store, row)]) if not store.exists(key)]


def stranger_findings(store: Store, record: SweepRecord) -> Iterator[Finding]:
    """Trials that lie in the folder and that its sweep file, as it was last run, does not ask for."""
    asked = {trial.trial_id for trial in (*record.trials, *record.pilots, *planned_samples(store, record))}
    taken: dict[str, int] = {}
    for key, size in store.sizes("trials").items():
        identity = key.split("/")[1]
        if identity not in asked:
            taken[identity] = taken.get(identity, 0) + size
    for identity, size in taken.items():
        yield Finding(
            severity="note",
            where=layout.trial_prefix(identity),
            what="a trial that the sweep file does not ask for (any more)",
            remedy="counts again when the file asks for it; delete the folder to free its space",
            num_bytes=size,
        )
