"""Where a sweep is tracked, and the UI that finds it again from any working directory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from orchestrator.exports import SweepSummary
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from orchestrator.tracking import Tracking, place_of, sweep_id, ui_command
from orchestrator.tracking_place import TrackingPlace, tracking_place, tracking_problems
from results import layout
from results.store import open_store
from search_spaces.problems import InputError

MOUNTS = {Path("/"): "9p", Path("/data"): "ext4"}


def place(store_uri, configured_uri=None, mounts=MOUNTS, **more):
    return tracking_place(store_uri, configured_uri, sweep_id="abc", mounts=mounts, **more)


def test_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    local = place("/data/my sweep")
    assert local == TrackingPlace(
        uri="sqlite:////data/my sweep/tracking/mlflow.db", artifacts="file:///data/my%20sweep/tracking/artifacts"
    )
    assert not local.is_server
    assert local.own_database == Path("/data/my sweep/tracking/mlflow.db")
    server = place("/data/sweep", "http://tracking.example:5000")
    assert server == TrackingPlace(uri="http://tracking.example:5000", artifacts=None)
    assert server.is_server
    assert server.own_database is None
    with pytest.raises(ValueError, match="open it in a browser"):
        ui_command(server)
    relative = place("/data/sweep", "sqlite:///runs.db")
    assert relative.uri == f"sqlite:///{tmp_path}/runs.db"
    assert relative.own_database is None  # other sweeps may be in it too
    with pytest.raises(InputError, match=r"demo.yaml: tracking.uri: './mlruns' is not a tracking server"):
        place("/data/sweep", "./mlruns", where="demo.yaml")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "lustre", "beegfs", "ceph"])
def test_sqlite_of_a_sweep_on_a_network_mount_is_in_the_cache(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path))
    cached = place("/data/shared/sweep", mounts={**MOUNTS, Path("/data/shared"): kind})
    own = tmp_path / "tracking" / "abc"
    assert cached == TrackingPlace(uri=f"sqlite:///{own}/mlflow.db", artifacts=(own / "artifacts").as_uri())
    assert cached.own_database == own / "mlflow.db"


@pytest.mark.parametrize("uri", ["s3://bucket/sweep", "gs://bucket/sweep"])
def test_sqlite_of_a_sweep_in_an_object_store_is_in_the_cache(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path))
    own = tmp_path / "tracking" / "abc"
    assert place(uri) == TrackingPlace(uri=f"sqlite:///{own}/mlflow.db", artifacts=(own / "artifacts").as_uri())
    shared = place(uri, "postgresql://host/runs")
    assert shared == TrackingPlace(uri="postgresql://host/runs", artifacts=(own / "artifacts").as_uri())
    assert place(uri, "http://tracking.example:5000").artifacts is None


@pytest.mark.parametrize(
    "mounts",
    [
        {Path("/"): "nfs", Path("/data"): "ext4"},
        {Path("/"): "ext4", Path("/data/sh"): "nfs"},  # no folder of the path, only the same first letters
        {Path("/data"): "nfs", Path("/data/shared"): "xfs"},
        {Path("/"): "9p"},
        {},
    ],
)
def test_the_nearest_mount_decides(mounts):
    assert place("/data/shared/sweep", mounts=mounts).uri == "sqlite:////data/shared/sweep/tracking/mlflow.db"


@pytest.mark.parametrize(
    "uri", [None, "http://host:5000", "https://host", "sqlite:///runs.db", "postgresql+psycopg2://user@host/runs"]
)
def test_servers_and_databases_are_no_problem(uri):
    assert tracking_problems(uri, "demo.yaml") == []


@pytest.mark.parametrize("uri", ["", "./mlruns", "file:///mlruns", "sqlite:runs.db", "databricks"])
def test_anything_else_is_a_problem(uri):
    assert [str(problem) for problem in tracking_problems(uri, "demo.yaml")] == [
        f"demo.yaml: tracking.uri: '{uri}' is not a tracking server or database "
        "(allowed: http:, https:, sqlite:, postgresql:, mysql:, mssql:)"
    ]


def recorded_sweep(sweep, tmp_path):
    """What `densesweep run` leaves of a sweep file whose database is named relative to its working directory."""
    plan = make_plan(resolve(sweep.file), None)
    store, record = open_store(str(sweep.folder)), sweep_record(plan)
    store.write(layout.SWEEP_FILE, sweep.file.read_bytes())
    store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    found = place_of(store, plan.sweep.tracking.uri)
    tracking = Tracking.open(store, record, found, sweep_id=sweep_id(store), log_file=tmp_path / "log")
    tracking.finish_sweep("finished", SweepSummary())
    tracking.close()
    assert tracking.behind is None


def experiment_shown(port, process):
    """The experiment that the UI has under the name of the sweep."""
    url = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get-by-name?experiment_name=tiny"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["experiment"]["name"]
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            time.sleep(0.2)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("uri", [None, "sqlite:///runs.db"])
def test_the_ui_finds_the_runs_from_another_working_directory(uri, make_sweep, tmp_path, monkeypatch):
    sweep = make_sweep(tracking={"uri": uri})
    monkeypatch.chdir(sweep.file.parent)
    recorded_sweep(sweep, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "orchestrator.cli", "ui", str(sweep.folder), "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with (tmp_path / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=tmp_path / "elsewhere", env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        assert experiment_shown(port, process) == "tiny", (tmp_path / "ui.log").read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: the UI, the server and its workers
        process.wait()


def test_the_ui_of_a_sweep_without_database_says_so(make_sweep):
    sweep = make_sweep()
    store = open_store(str(sweep.folder))
    plan = make_plan(resolve(sweep.file), None)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(plan)))
    done = sweep.command("ui", str(sweep.folder))
    assert done.returncode == 2
    assert f"there is no MLflow database at {sweep.folder}/tracking/mlflow.db" in done.stderr
