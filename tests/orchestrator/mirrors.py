"""What an MLflow server or database holds of the sweeps of `mirrored_sweeps`, and what brings it there."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing
from pathlib import Path

from mirrored_sweeps import RECORD, SUMMARY, TRIALS, begin_trial, end_trial, history

from orchestrator.tracking import Tracking, TrackingPlace, quiet_environment, sweep_id, ui_command
from orchestrator.tracking import place_of as place_found
from search_spaces.identity import trial_id
from trainers.cache import cache_folder


def empty_database():
    """MLflow's tables without a run, made once for all tests: their migrations take seconds each time."""
    kept = cache_folder() / "empty_mlflow.db"
    if not kept.exists():
        from mlflow import MlflowClient

        with tempfile.TemporaryDirectory() as folder:
            MlflowClient(tracking_uri=f"sqlite:///{folder}/new.db").search_experiments()
            copy_database(Path(folder, "new.db"), kept.with_suffix(f".{os.getpid()}"))
        kept.with_suffix(f".{os.getpid()}").rename(kept)
    return kept


def copy_database(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def place_of(store):
    place = place_found(store, None)
    assert place is not None
    return place


def open_tracking(store, place=None, record=RECORD):
    log, tags = Path(store.uri) / "logs" / "run.log", {"git_commit": "c0"}
    place = place or place_of(store)
    if place.own_database and not place.own_database.exists():
        copy_database(empty_database(), place.own_database)
    return Tracking.open(store, record, place, sweep_id=sweep_id(store), log_file=log, tags=tags)


def close(tracking):
    tracking.close()
    assert tracking.behind is None, tracking.behind


def client_of(place):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=place.uri)


def named_runs(place, experiment):
    """The runs of an experiment, which may not be there yet."""
    client = client_of(place)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id])) if found else []


def all_runs(place):
    return named_runs(place, "small")


def runs_by_name(place, runs=None):
    runs = all_runs(place) if runs is None else runs
    assert len({run.info.run_name for run in runs}) == len(runs), "a run stands twice"
    return {run.info.run_name: run for run in runs}


def steps_of(place, run, name="train/loss"):
    """(step, value) of each logged number, in order, duplicates included."""
    return sorted((m.step, m.value) for m in client_of(place).get_metric_history(run.info.run_id, name))


def artifacts_of(place, run, folder, path=None):
    """Contents of a run's artifacts by path."""
    client, found = client_of(place), {}
    for item in client.list_artifacts(run.info.run_id, path):
        if item.is_dir:
            found |= artifacts_of(place, run, folder, item.path)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            found[item.path] = Path(client.download_artifacts(run.info.run_id, item.path, str(folder))).read_bytes()
    return found


def snapshot(place, folder, runs=None):
    """All that the server holds of the sweep, or of some runs, but ids and clock times."""
    shown = {}
    for name, run in runs_by_name(place, runs).items():
        shown[name] = {
            "status": run.info.status,
            "parameters": run.data.params,
            "tags": {
                key: value
                for key, value in run.data.tags.items()
                if key not in ("mlflow.parentRunId", "sweep_id", "mirrored_from")
            },
            "metrics": {metric: steps_of(place, run, metric) for metric in run.data.metrics},
            "inputs": inputs_of(run),
            "artifacts": artifacts_of(place, run, folder / name.replace("/", "_")),
        }
    return shown


def inputs_of(run):
    """(name, context, source) of the data sets that went into a run."""
    found = run.inputs.dataset_inputs
    return sorted((item.dataset.name, item.tags[0].value, item.dataset.source) for item in found)


def run_live(tracking, store, specs=TRIALS):
    """A driver's calls for a sweep without accidents."""
    for spec in specs:
        key = trial_id(spec)
        begin_trial(store, spec)
        tracking.start(key, spec)
        for row in history(spec) if spec.training else []:
            tracking.log_steps(key, [row])
        end_trial(store, spec)
        tracking.finish(key)


def end_sweep(store, place=None):
    tracking = open_tracking(store, place)
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)


def start_script(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet_environment())


def run_script(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=quiet_environment())


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A real `mlflow server`, as `densesweep ui` starts it, on a SQLite database or one that is given."""

    def __init__(self, folder, database=None):
        self.port = free_port()
        self.place = TrackingPlace(uri=f"http://127.0.0.1:{self.port}", artifacts=None)
        self.backend = TrackingPlace(
            uri=database or f"sqlite:///{folder}/server.db", artifacts=(folder / "artifacts").as_uri()
        )
        self._folder = folder

    def start(self):
        command = ui_command(self.backend, port=self.port)
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=quiet_environment(), stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.place.uri}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError((self._folder / "server.log").read_text())

    def kill(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: the server and its workers
        self._process.wait()
