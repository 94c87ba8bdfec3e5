"""The runs of one sweep on a tracking server or database.

A parent run (the sweep) and child runs (trials, probes), found again by tag. `MlflowClient` only, never the fluent
global run. Calls block and raise what MLflow raises; `orchestrator.tracking` keeps both from the sweep.
"""

import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from orchestrator.data_inputs import DataInput
from orchestrator.exports import SweepSummary
from orchestrator.labels import RunLabels
from orchestrator.mlflow_client import found_experiment, open_client, open_reader
from orchestrator.model_registry import Registration, register
from orchestrator.run_content import HistoryRow, RunContent
from orchestrator.run_metrics import MAX_METRICS, STEP_COLUMNS, step_metric
from orchestrator.run_outlines import RunOutline, fingerprint
from orchestrator.tracking_place import TrackingPlace
from results.best import BestTrial
from results.layout import Status

RunState = Literal["finished", "failed", "killed"]

_STEPS_PER_BATCH = 1000 // len(STEP_COLUMNS)  # MLflow takes 1,000 metrics at once: whole steps are written, or none
_ENDED = {"finished": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
_SWEEP, _DIGEST, _PARENT, _NOTE = "sweep_id", "mirrored", "mlflow.parentRunId", "mlflow.note.content"
_UPLOADED, _STATUS, _SEEN = "checkpoint_uploaded", "status", "mirrored_from"


@dataclass(kw_only=True)
class _Run:
    """One MLflow run as this process knows it. `steps` is None until it is read from the server."""

    run_id: str
    name: str
    artifact_uri: str
    status: str
    tags: dict[str, str]
    parameters: set[str]
    metrics: dict[str, float]
    inputs: set[tuple[str, str]]  # name and digest
    steps: set[int] | None


@dataclass(frozen=True, kw_only=True)
class LeftRunning:
    """A run that is RUNNING."""

    run_id: str
    name: str


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
        self._client = open_client(self._place, self._experiment)
        self._experiment_id = found_experiment(self._client, self._experiment, self._place.artifacts)
        found, self._runs = self._read()
        parent = found or self._create(self._experiment, {"kind": "sweep"}, started_ms=None)
        self.parent_run_id = parent.run_id
        self._set_status(parent, "RUNNING")
        self._log_artifacts(parent, sweep_artifacts)

    def run_ids(self) -> dict[str, str]:
        """The run of each trial and probe that has one, by identity; only reads."""
        self._client = open_reader(self._place)
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is None:
            return {}
        self._experiment_id = experiment.experiment_id
        found = sorted(self._found(), key=lambda run: _DIGEST in run.tags)  # of two the one that holds more comes last
        return {key: run.run_id for run in found if (key := _key(run))}

    def left_running(self) -> tuple[LeftRunning, ...]:
        """The runs of the sweep, the parent included, that are RUNNING on the server; only reads."""
        return tuple(LeftRunning(run_id=run.run_id, name=run.name) for run in self._left())

    def end_left_running(self) -> tuple[LeftRunning, ...]:
        """End as KILLED what `left_running` finds, and return it. No driver may be running the sweep."""
        left = self._left()
        for run in left:
            self._set_status(run, "KILLED")
        return tuple(LeftRunning(run_id=run.run_id, name=run.name) for run in left)

    def _left(self) -> list[_Run]:
        self._client = open_client(self._place, self._experiment)
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is None:
            return []
        self._experiment_id = experiment.experiment_id
        parent, self._runs = self._read()
        return [run for run in (*self._runs.values(), *([parent] if parent else [])) if run.status == "RUNNING"]

    def reopen(self, labels: RunLabels) -> None:
        """Find or create the run of a trial or probe, and let it be RUNNING."""
        self._set_status(self._run(labels, started_ms=None), "RUNNING")

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

    def mirror(self, outline: RunOutline) -> None:
        """Bring one run up to date, its final status included. Nothing is written twice, and read only where it may be.

        A run carries the digest of what it holds, and the fingerprint of what that was read from, as this version of
        the program has it: where that is the same, nothing need be read.
        """
        status = outline.status
        run = self._run(outline.labels, started_ms=_milliseconds(status.started_at))
        seen = fingerprint({}, outline.fingerprint, self._tags)
        if run.tags.get(_SEEN) != seen or _DIGEST not in run.tags:
            if (content := outline.content()) is None:
                return
            self._send(run, content)
            self._set_tags(run, {_SEEN: seen})
            status = content.status
        if status.state != "running":
            self._set_status(run, _ENDED[status.state], end_ms=_end_ms(status), told=status.state)

    def _send(self, run: _Run, content: RunContent) -> None:
        digest, status = content.digest, content.status
        if run.tags.get(_DIGEST) == digest:
            return
        self.log_steps(content.labels.key, _timed(content.steps, status))
        self._log_metrics(run, content.metrics, _end_ms(status))
        self._log_inputs(run, content.inputs)
        self._log_artifacts(run, {**content.artifacts, **content.plots()})
        self._set_tags(run, {**content.made_with, _NOTE: content.description})
        self._set_tags(run, {_DIGEST: digest})  # last: what carries it holds everything

    def has_checkpoint(self, key: str, checkpoint_hash: str) -> bool:
        """Whether the run has the files of the checkpoint."""
        return self._runs[key].tags.get(_UPLOADED) == checkpoint_hash

    def lacking(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Those of these trials and probes that have no run."""
        return tuple(key for key in keys if key not in self._runs)

    def run_id(self, key: str) -> str:
        """The MLflow run of a trial or probe that has one."""
        return self._runs[key].run_id

    def upload(self, run_id: str, folder: Path) -> None:
        """Copy the files of a checkpoint beside their manifest. May be called from a thread of its own."""
        self._client.log_artifacts(run_id, str(folder), "checkpoint")

    def uploaded(self, key: str, checkpoint_hash: str) -> None:
        """Note that the run has the files of the checkpoint."""
        self._set_tags(self._runs[key], {_UPLOADED: checkpoint_hash})

    def register(self, best: BestTrial, checkpoint_uri: str) -> None:
        """Make the checkpoint of a trial, whose run is there, the best version of its cell's model."""
        run = self._runs[best.trial_id]
        registration = Registration(
            best=best,
            sweep=self._experiment,
            run_id=run.run_id,
            source=f"{run.artifact_uri}/checkpoint",
            checkpoint_uri=checkpoint_uri,
        )
        register(self._client, registration)

    def end(self, key: str, state: RunState) -> None:
        """End the run of a trial or probe."""
        self._set_status(self._runs[key], _ENDED[state])

    def end_sweep(self, state: RunState, summary: SweepSummary) -> None:
        """End the parent run with what the sweep showed."""
        assert self.parent_run_id is not None, "connect() comes first"
        self._drop_doubles()
        parent = _as_run(self._client.get_run(self.parent_run_id))
        self._log_metrics(parent, dict(list(summary.metrics.items())[:MAX_METRICS]), now_ms())
        self._log_artifacts(parent, summary.files)
        if summary.description:
            self._set_tags(parent, {_NOTE: summary.description})
        self._set_status(parent, _ENDED[state])

    def _read(self) -> tuple[_Run | None, dict[str, _Run]]:
        """The parent run and the children by identity. Of two with one identity the one that holds more stays."""
        children: dict[str, _Run] = {}
        for run in list(self._found()):  # all pages, before a deletion moves them
            key = _key(run)
            other = children.get(key)
            if other is not None:
                holds_less = other if _DIGEST in run.tags and _DIGEST not in other.tags else run
                self._client.delete_run(holds_less.run_id)
                run = other if holds_less is run else run
            children[key] = run
        return children.pop("", None), children

    def _drop_doubles(self) -> None:
        """Delete what has the identity of a run that this process wrote, and is not that run.

        MLflow's HTTP client sends a request again whose answer was lost, and so may create a run twice.
        """
        own = {"": self.parent_run_id, **{key: run.run_id for key, run in self._runs.items()}}
        for run in list(self._found()):  # all pages, before a deletion moves them
            if run.run_id != own.get(_key(run), run.run_id):
                self._client.delete_run(run.run_id)

    def _found(self) -> Iterator[_Run]:
        """The runs of this sweep on the server, by the time they started."""
        token: str | None = None
        while token != "":
            page = self._client.search_runs(
                [self._experiment_id],
                filter_string=f"tags.{_SWEEP} = '{self._sweep_id}'",
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            yield from map(_as_run, page)
            token = page.token or ""

    def _run(self, labels: RunLabels, *, started_ms: int | None) -> _Run:
        """The run of a trial or probe, found or created, with its labels as they are now."""
        from mlflow.entities import Param

        if labels.key not in self._runs:
            own = {**labels.tags, _PARENT: str(self.parent_run_id)}
            self._runs[labels.key] = self._create(labels.name, own, started_ms=started_ms)
        run = self._runs[labels.key]
        if run.name != labels.name:  # of a sweep that was extended by another trial of that title
            self._client.update_run(run.run_id, name=labels.name)
            run.name = labels.name
        self._set_tags(run, labels.tags)
        # A parameter never changes, but what is not part of the identity (threads) may differ in a later attempt.
        new = {name: value for name, value in labels.parameters.items() if name not in run.parameters}
        if new:
            self._client.log_batch(run.run_id, params=[Param(name, value) for name, value in new.items()])
            run.parameters.update(new)
        return run

    def _create(self, name: str, own: Mapping[str, str], *, started_ms: int | None) -> _Run:
        all_tags = {**self._tags, **own, _SWEEP: self._sweep_id, _STATUS: "running"}
        created = self._client.create_run(self._experiment_id, start_time=started_ms, tags=all_tags, run_name=name)
        run = _as_run(created)
        run.steps = set()
        return run

    def _set_status(self, run: _Run, status: str, *, end_ms: int | None = None, told: str | None = None) -> None:
        self._set_tags(run, {_STATUS: told or status.lower()})  # MLflow has no word for pruned
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.run_id, status=status)
        else:
            self._client.set_terminated(run.run_id, status=status, end_time=end_ms)
        run.status = status

    def _set_tags(self, run: _Run, values: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        new = {name: value for name, value in values.items() if run.tags.get(name) != value}
        if new:
            self._client.log_batch(run.run_id, tags=[RunTag(name, value) for name, value in new.items()])
            run.tags.update(new)

    def _log_inputs(self, run: _Run, inputs: Iterable[DataInput]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        new = [item for item in inputs if (item.name, item.digest) not in run.inputs]
        datasets = [
            DatasetInput(
                Dataset(item.name, item.digest, item.source_type, item.source, profile=item.profile),
                [InputTag("mlflow.data.context", item.context)],
            )
            for item in new
        ]
        if datasets:
            self._client.log_inputs(run.run_id, datasets=datasets)
            run.inputs.update((item.name, item.digest) for item in new)

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


def _key(run: _Run) -> str:
    """The identity of a child run; empty for the parent."""
    return run.tags.get("trial_id") or run.tags.get("probe_id") or ""


def _as_run(found: Any) -> _Run:
    return _Run(
        run_id=found.info.run_id,
        name=found.info.run_name,
        artifact_uri=found.info.artifact_uri,
        status=found.info.status,
        tags=dict(found.data.tags),
        parameters=set(found.data.params),
        metrics=dict(found.data.metrics),
        inputs={
            (item.dataset.name, item.dataset.digest) for item in (found.inputs.dataset_inputs if found.inputs else ())
        },
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
