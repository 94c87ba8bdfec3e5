"""The runs of one sweep on a tracking server or database: the only module that imports mlflow.

A parent run (the sweep) and child runs (trials, probes), found again by tag. `MlflowClient` only, never the fluent
global run. Calls block and raise what MLflow raises; `orchestrator.tracking` keeps both from the sweep.
"""

import logging
import math
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from orchestrator.mirror import MAX_METRICS, STEP_COLUMNS, HistoryRow, RunContent, parameters, step_metric, tags
from orchestrator.tracking_place import TrackingPlace
from results.layout import Status
from search_spaces.specs import ProbeSpec, TrialSpec

RunState = Literal["finished", "failed", "killed"]

_STEPS_PER_BATCH = 1000 // len(STEP_COLUMNS)  # MLflow takes 1,000 metrics at once: whole steps are written, or none
_MAX_NOTE = 7500  # a description is a tag, and ends at 8,000 characters
_ENDED = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
_SWEEP, _DIGEST, _PARENT, _NOTE = "sweep_id", "mirrored", "mlflow.parentRunId", "mlflow.note.content"
_LOGGERS = ("mlflow", "alembic", "urllib3", "orchestrator.background")
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # a server that is away is met again by the next sync
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


@dataclass(kw_only=True)
class _Run:
    """One MLflow run as this process knows it. `steps` is None until it is read from the server."""

    run_id: str
    status: str
    tags: dict[str, str]
    parameters: set[str]
    metrics: dict[str, float]
    steps: set[int] | None


def quiet_environment() -> dict[str, str]:
    """This process's environment with MLflow's telemetry off and short retries; what the user has set stays."""
    return {**_ENVIRONMENT, **os.environ}


def quiet_mlflow(log_file: Path) -> None:
    """Import mlflow with telemetry off, and send what it, its database layer and this mirror log to `log_file`."""
    os.environ.update(quiet_environment())  # read by mlflow as it is imported
    import mlflow  # noqa: F401 - its import puts handlers on its loggers, which are replaced here

    log_file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for old in logger.handlers:
            old.close()
        logger.handlers = [handler]
        logger.propagate = False


class MlflowRuns:
    """What the tracking server holds of one sweep. Used by one thread."""

    def __init__(self, place: TrackingPlace, *, experiment: str, sweep_id: str, tags: Mapping[str, str]) -> None:
        self.parent_run_id: str | None = None
        self._place = place
        self._experiment = experiment
        self._sweep_id = sweep_id
        self._tags = dict(tags)
        self._client: Any = None
        self._experiment_id = ""
        self._runs: dict[str, _Run] = {}

    @property
    def running(self) -> set[str]:
        """Identities of the trials and probes whose runs are RUNNING."""
        return {key for key, run in self._runs.items() if run.status == "RUNNING"}

    def connect(self, sweep_artifacts: Mapping[str, bytes]) -> None:
        """Find or create experiment and parent run, and read anew what the server holds of the sweep."""
        from mlflow import MlflowClient  # here, since it takes two seconds that `plan` and `tables` do not spend

        if (database := self._place.own_database) and database.exists():
            _drop_moved(database, self._experiment, self._place.artifacts)
        _prepare_sqlite(self._place.uri)
        self._client = MlflowClient(tracking_uri=self._place.uri)
        self._experiment_id = self._find_experiment()
        found, self._runs = self._read()
        parent = found or self._create(self._experiment, {"kind": "sweep"}, started_ms=None)
        self.parent_run_id = parent.run_id
        self._set_status(parent, "RUNNING")
        self._log_artifacts(parent, sweep_artifacts)

    def reopen(self, key: str, spec: TrialSpec | ProbeSpec) -> None:
        """Find or create the run of a trial or probe, and let it be RUNNING."""
        self._set_status(self._run(key, spec, started_ms=None), "RUNNING")

    def log_steps(self, key: str, rows: Iterable[tuple[int, HistoryRow]]) -> None:
        """Log (milliseconds, history row) pairs, but not the steps that the run has already."""
        from mlflow.entities import Metric

        run = self._runs[key]
        if run.steps is None:
            history = self._client.get_metric_history(run.run_id, step_metric("loss"))
            run.steps = {metric.step for metric in history}
        new = {row["step"]: (ms, row) for ms, row in rows if row["step"] not in run.steps}
        for batch in _batches(new.items(), _STEPS_PER_BATCH):
            metrics = [
                Metric(step_metric(name), float(row[name]), ms, step)
                for step, (ms, row) in batch
                for name in STEP_COLUMNS
                if row[name] is not None and math.isfinite(row[name])
            ]
            self._client.log_batch(run.run_id, metrics=metrics)
            run.steps.update(step for step, _ in batch)

    def mirror(self, content: RunContent) -> None:
        """Bring one run up to date with `content`, its final status included; nothing is written twice."""
        status = content.status
        run = self._run(content.key, content.spec, started_ms=_milliseconds(status.started_at))
        digest = content.digest
        if run.tags.get(_DIGEST) != digest:
            self.log_steps(content.key, _timed(content.steps, status))
            self._log_metrics(run, content.metrics, _end_ms(status))
            self._log_artifacts(run, content.artifacts)
            if status.reason:
                self._set_tag(run, _NOTE, status.reason[:_MAX_NOTE])
            self._set_tag(run, _DIGEST, digest)
        if status.state != "running":
            self._set_status(run, _ENDED[status.state], end_ms=_end_ms(status))

    def end(self, key: str, state: RunState) -> None:
        """End the run of a trial or probe."""
        self._set_status(self._runs[key], _ENDED[state])

    def end_sweep(self, state: RunState, *, tables: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """End the parent run with its tables; the first Markdown one, or where it lies, is the description."""
        assert self.parent_run_id is not None, "connect() comes first"
        parent = _as_run(self._client.get_run(self.parent_run_id))
        self._log_metrics(parent, dict(list(metrics.items())[:MAX_METRICS]), now_ms())
        self._log_artifacts(parent, {f"tables/{name}": text.encode() for name, text in tables.items()})
        headline = next((name for name in sorted(tables) if name.endswith(".md")), None)
        if headline is not None:
            text = tables[headline]
            note = text if len(text) <= _MAX_NOTE else f"The table is in the artifact tables/{headline}."
            self._set_tag(parent, _NOTE, note)
        self._set_status(parent, _ENDED[state])

    def _find_experiment(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return found.experiment_id
        return self._client.create_experiment(self._experiment, artifact_location=self._place.artifacts)

    def _read(self) -> tuple[_Run | None, dict[str, _Run]]:
        """The parent run and the children by identity. Of two runs with one identity the later is deleted.

        MLflow's HTTP client sends a request again whose answer was lost, and so may create a run twice.
        """
        children: dict[str, _Run] = {}
        token: str | None = None
        while token != "":
            page = self._client.search_runs(
                [self._experiment_id],
                filter_string=f"tags.{_SWEEP} = '{self._sweep_id}'",
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            for found in page:
                run = _as_run(found)
                key = run.tags.get("trial_id") or run.tags.get("probe_id") or ""
                if key in children:
                    self._client.delete_run(run.run_id)
                children.setdefault(key, run)
            token = page.token or ""
        return children.pop("", None), children

    def _run(self, key: str, spec: TrialSpec | ProbeSpec, *, started_ms: int | None) -> _Run:
        """The run of a trial or probe, found or created, with its parameters."""
        from mlflow.entities import Param

        if key not in self._runs:
            own = {**tags(key, spec), _PARENT: str(self.parent_run_id)}
            self._runs[key] = self._create(spec.title, own, started_ms=started_ms)
        run = self._runs[key]
        # A parameter never changes, but what is not part of the identity (threads) may differ in a later attempt.
        new = {name: value for name, value in parameters(spec).items() if name not in run.parameters}
        if new:
            self._client.log_batch(run.run_id, params=[Param(name, value) for name, value in new.items()])
            run.parameters.update(new)
        return run

    def _create(self, name: str, own: Mapping[str, str], *, started_ms: int | None) -> _Run:
        all_tags = {**self._tags, **own, _SWEEP: self._sweep_id}
        created = self._client.create_run(self._experiment_id, start_time=started_ms, tags=all_tags, run_name=name)
        run = _as_run(created)
        run.steps = set()
        return run

    def _set_status(self, run: _Run, status: str, *, end_ms: int | None = None) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.run_id, status=status)
        else:
            self._client.set_terminated(run.run_id, status=status, end_time=end_ms)
        run.status = status

    def _set_tag(self, run: _Run, name: str, value: str) -> None:
        if run.tags.get(name) != value:
            self._client.set_tag(run.run_id, name, value)
            run.tags[name] = value

    def _log_metrics(self, run: _Run, metrics: Mapping[str, float], at_ms: int) -> None:
        from mlflow.entities import Metric

        new = {name: value for name, value in metrics.items() if run.metrics.get(name) != value}
        # A number that replaces another must be the later one to be shown.
        stamped = [Metric(name, value, now_ms() if name in run.metrics else at_ms, 0) for name, value in new.items()]
        if stamped:
            self._client.log_batch(run.run_id, metrics=stamped)
            run.metrics.update(new)

    def _log_artifacts(self, run: _Run, artifacts: Mapping[str, bytes]) -> None:
        with tempfile.TemporaryDirectory(prefix="densesweep-") as folder:
            for name, data in artifacts.items():
                file = Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            if artifacts:
                self._client.log_artifacts(run.run_id, folder)


def _drop_moved(database: Path, experiment: str, artifacts: str | None) -> None:
    """Delete a database that still names another folder for artifacts: it was moved here, and can be filled anew.

    MLflow keeps the artifact folder of an experiment for good.
    """
    with closing(sqlite3.connect(database)) as connection:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone()
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        found = connection.execute(query, (experiment,)).fetchone() if known else None
    if found and found[0] != artifacts:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)


def _prepare_sqlite(uri: str) -> None:
    """Make the database's folder, and let readers (the UI) go on while the driver writes."""
    if uri.startswith("sqlite:///"):
        database = Path(uri.removeprefix("sqlite:///"))
        database.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(database)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()


def _as_run(found: Any) -> _Run:
    return _Run(
        run_id=found.info.run_id,
        status=found.info.status,
        tags=dict(found.data.tags),
        parameters=set(found.data.params),
        metrics=dict(found.data.metrics),
        steps=None,
    )


def _timed(steps: Iterable[HistoryRow], status: Status) -> Iterator[tuple[int, HistoryRow]]:
    """Rows of a history with the time, in milliseconds, that each step would have had at an even pace."""
    rows = list(steps)
    start_ms, end_ms = _milliseconds(status.started_at), _end_ms(status)
    for index, row in enumerate(rows, start=1):
        yield start_ms + (end_ms - start_ms) * index // len(rows), row


def _milliseconds(iso_time: str) -> int:
    return int(datetime.fromisoformat(iso_time).timestamp() * 1000)


def _end_ms(status: Status) -> int:
    return _milliseconds(status.finished_at or status.started_at)


def now_ms() -> int:
    """Milliseconds since the epoch, as MLflow counts time."""
    return time.time_ns() // 1_000_000


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
