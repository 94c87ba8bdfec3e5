"""The MLflow mirror of a sweep, as the driver sees it: calls return at once, and none of them ever fails a sweep.

One thread writes (so SQLite never sees two writers); files of checkpoints go in another. What could not be written is
rebuilt from the sweep folder by `sync`: again and again while the sweep runs, at its end, by `densesweep sync`, or when
the same command is given again.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from orchestrator.background import Background
from orchestrator.checkpoint_uploads import CheckpointUploads
from orchestrator.exports import SweepSummary
from orchestrator.mirror import Mirror
from orchestrator.mlflow_client import quiet_environment, quiet_mlflow
from orchestrator.mlflow_runs import LeftRunning, MlflowRuns, now_ms
from orchestrator.run_content import HistoryRow
from orchestrator.run_outlines import RunOutline
from orchestrator.tracking_place import TrackingPlace, place_of, sweep_id, tracking_problems
from results.layout import SweepRecord, checkpoint_prefix, manifest_key
from results.store import Store
from search_spaces.specs import ProbeSpec, TrialSpec

__all__ = [
    "LeftRunning",
    "SweepState",
    "SweepSummary",
    "Tracking",
    "TrackingPlace",
    "end_left_running",
    "left_running",
    "mirror_is_whole",
    "place_of",
    "quiet_environment",
    "sweep_id",
    "tracking_problems",
    "ui_command",
]

SweepState = Literal["finished", "failed", "killed"]

_WHOLE = "tracking/whole"  # names the place whose mirror holds all of an ended sweep, while one does


def ui_command(place: TrackingPlace, *, port: int = 5000) -> list[str]:
    """The command of an MLflow UI on 127.0.0.1 over the database at `place`; run it with `quiet_environment()`.

    Raises:
        ValueError: a server answers at `place` already.
    """
    if place.is_server:
        raise ValueError(f"{place.uri} is a tracking server already: open it in a browser")
    artifacts = ["--artifacts-destination", place.artifacts] if place.artifacts else []
    server = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", place.uri, *artifacts]
    return [*server, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]


def mirror_is_whole(store: Store, place: TrackingPlace) -> bool:
    """Whether the mirror at `place` holds all of this sweep folder: there is nothing to open `Tracking` for."""
    if not store.exists(_WHOLE) or store.read(_WHOLE).decode() != place.uri:
        return False
    return place.own_database is None or place.own_database.exists()


def left_running(store: Store, record: SweepRecord, place: TrackingPlace) -> tuple[LeftRunning, ...]:
    """The sweep's runs that are RUNNING at `place`, for a sweep that no driver runs: what a killed one left.

    Raises:
        Exception: what MLflow raises where the place cannot be reached.
    """
    return _runs_of(store, record, place).left_running() if _is_there(place) else ()


def end_left_running(store: Store, record: SweepRecord, place: TrackingPlace) -> tuple[LeftRunning, ...]:
    """End as KILLED what `left_running` finds, and return it; the sweep's lock must be held. Raises as it does."""
    return _runs_of(store, record, place).end_left_running() if _is_there(place) else ()


def run_ids(store: Store, record: SweepRecord, place: TrackingPlace) -> dict[str, str]:
    """The MLflow runs at `place` by the trials and probes that they mirror. Raises as `left_running` does."""
    return _runs_of(store, record, place).run_ids() if _is_there(place) else {}


def _is_there(place: TrackingPlace) -> bool:
    """False where looking would make an empty database."""
    return place.own_database is None or place.own_database.exists()


def _runs_of(store: Store, record: SweepRecord, place: TrackingPlace) -> MlflowRuns:
    return MlflowRuns(place, experiment=record.name, sweep_id=sweep_id(store), tags={})


class Tracking:
    """The mirror of one sweep, from `open` to `close`. Only `open` raises, where its log cannot be written."""

    def __init__(
        self, *, store: Store, place: TrackingPlace, mirror: Mirror, runs: MlflowRuns, background: Background
    ) -> None:
        self._store = store
        self._place = place
        self._mirror = mirror
        self._runs = runs
        self._background = background
        self._lock = threading.Lock()
        self._pending: dict[str, list[tuple[int, HistoryRow]]] = {}  # (milliseconds, row), not written yet
        self._specs: dict[str, TrialSpec | ProbeSpec] = {}
        self._live: set[str] = set()  # trials and probes that this driver is running
        self._ended = False
        self._uploads = CheckpointUploads(store, runs.upload, self._note_upload, name="mlflow-uploads")

    @classmethod
    def open(
        cls,
        store: Store,
        record: SweepRecord,
        place: TrackingPlace,
        *,
        sweep_id: str,
        log_file: Path,
        tags: Mapping[str, str] | None = None,
    ) -> "Tracking":
        """Find or create the experiment and the parent run, end what a killed driver left, and catch up.

        The sweep's lock must be held. `sweep_id` names the parent run for good; `tags` go to every run (git commit).
        """
        quiet_mlflow(log_file)
        runs = MlflowRuns(place, experiment=record.name, sweep_id=sweep_id, tags=tags or {})
        background = Background("mlflow-mirror")
        tracking = cls(store=store, place=place, mirror=Mirror(store, record), runs=runs, background=background)
        store.delete(_WHOLE)
        tracking.sync()
        return tracking

    @property
    def behind(self) -> str | None:
        """Why the mirror lacks something, in one line; None while it lacks nothing."""
        return self._background.failure or self._uploads.failure

    @property
    def parent_run_id(self) -> str | None:
        """The sweep's MLflow run, once the tracking server has answered."""
        return self._runs.parent_run_id

    def start(self, key: str, spec: TrialSpec | ProbeSpec) -> None:
        """A trial or probe starts, or goes on: its run is created or found, and is RUNNING."""
        self._specs[key] = spec
        self._live.add(key)
        self._background.submit(f"start of {spec.title}", partial(self._start, key))

    def log_steps(self, key: str, rows: Sequence[HistoryRow]) -> None:
        """Add history rows (columns of `results.schemas.HISTORY`); steps that the run has already are passed over."""
        if self._background.failure:
            self._sync_when_due()  # the history in the sweep folder brings them later
            return
        now = now_ms()
        with self._lock:
            waiting = self._pending.setdefault(key, [])
            waiting.extend((now, row) for row in rows)
            if len(waiting) > len(rows):
                return  # an operation that takes these too is queued already: slow servers get larger batches
        self._background.submit(f"steps of {key}", partial(self._log_pending, key))

    def finish(self, key: str) -> None:
        """A trial or probe has ended: mirror its status, rows and headline metrics from the sweep folder."""
        if self._background.failure:
            self._live.discard(key)
            self._sync_when_due()  # not each end: a server that hangs would be waited for as often
            return
        self._background.submit(f"end of {key}", partial(self._finish, key), recovers=True)

    def sync(self) -> None:
        """Bring the mirror up to date with the sweep folder: whatever is missing or stale there, and nothing twice."""
        self._background.submit("sync", self._sync, recovers=True)

    def finish_sweep(self, state: SweepState, summary: SweepSummary) -> None:
        """End the parent run with what the sweep showed."""
        self._ended = True
        self._background.submit("end of the sweep", partial(self._finish_sweep, state, summary), recovers=True)

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Wait until everything so far was tried; say whether that came within `timeout_s`."""
        return self._background.flush(timeout_s)

    def close(self, timeout_s: float = 120.0) -> None:
        """Write what is queued and end. Runs that are still RUNNING, the sweep's included, end as KILLED."""
        until = time.monotonic() + timeout_s

        def left_s() -> float:
            return max(0.0, until - time.monotonic())

        self._background.flush(left_s())
        self._uploads.close(left_s())
        self._background.submit("close", self._end_live)
        self._background.close(left_s())

    def _sync_when_due(self) -> None:
        if self._background.take_retry():
            self.sync()

    def _note_upload(self, key: str, checkpoint_hash: str) -> None:
        self._background.submit(f"checkpoint of {key}", partial(self._runs.uploaded, key, checkpoint_hash))

    # Everything below runs in the background thread alone.

    def _sync(self) -> None:
        self._mirror.refresh()
        self._runs.connect(self._mirror.sweep_artifacts())
        for outline in self._mirror.outlines():
            self._mirror_run(outline)
        live = set(self._live)  # a copy: the driver adds to it meanwhile
        for key in live:
            self._start(key)
        for key in self._runs.running - live:
            self._runs.end(key, "killed")  # its driver is no more
        for key in list(self._pending):
            self._log_pending(key)

    def _start(self, key: str) -> None:
        self._runs.reopen(self._mirror.labels(key, self._specs[key]))

    def _log_pending(self, key: str) -> None:
        with self._lock:
            rows = self._pending.pop(key, [])
        if key in self._live:  # steps told after the end came from the history already
            self._runs.log_steps(key, rows)

    def _finish(self, key: str) -> None:
        self._live.discard(key)
        if self._background.failure:
            self._sync()
        elif (outline := self._mirror.outline(key)) is not None:
            self._mirror_run(outline)

    def _mirror_run(self, outline: RunOutline) -> None:
        self._runs.mirror(outline)
        key, checkpoint_hash = outline.labels.key, outline.checkpoint_hash
        is_wanted = self._mirror.record.upload_checkpoints and self._store.exists(manifest_key(key))
        if checkpoint_hash and is_wanted and not self._runs.has_checkpoint(key, checkpoint_hash):
            self._uploads.submit(key, checkpoint_hash, self._runs.run_id(key))

    def _finish_sweep(self, state: SweepState, summary: SweepSummary) -> None:
        if self._background.failure:
            self._sync()
        self._mirror.refresh()
        for key in self._runs.lacking(self._mirror.keys):  # whose events did not come here
            if outline := self._mirror.outline(key):
                self._mirror_run(outline)
        if self._mirror.record.register_best:
            for best in self._mirror.best():
                self._runs.register(best, f"{self._store.uri}/{checkpoint_prefix(best.trial_id)}")
        # Again, as they are now: searches add trials to the record, and samples to their own.
        files = {**self._mirror.sweep_artifacts(), **summary.files}
        self._runs.end_sweep(state, replace(summary, files=files))

    def _end_live(self) -> None:
        for key in self._runs.running:
            self._runs.end(key, "killed")
        if not self._ended:
            self._runs.end_sweep("killed", SweepSummary())
        elif self._uploads.failure is None:
            self._store.write(_WHOLE, self._place.uri.encode())
