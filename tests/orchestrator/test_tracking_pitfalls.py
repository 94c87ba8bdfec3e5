"""What others met with MLflow: ./mlruns, relative URIs, races, locked databases, runs left RUNNING."""

import contextlib
import signal
import sqlite3
from dataclasses import replace

import pytest
from mirrored_sweeps import COSINE, FOLDER, RECORD, SUMMARY, TRIALS, end_everything, end_trial, history
from mirrors import (
    all_runs,
    client_of,
    close,
    end_sweep,
    named_runs,
    open_tracking,
    place_of,
    run_live,
    run_script,
    runs_by_name,
    start_script,
    steps_of,
)

from orchestrator.mlflow_client import found_experiment, open_client
from orchestrator.tracking import TrackingPlace, end_left_running, left_running

WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from mirrored_sweeps import COSINE, SUMMARY, begin_trial
from mirrors import open_tracking, run_live
from orchestrator.tracking import TrackingPlace
from results.store import open_store
from search_spaces.identity import trial_id
store = open_store(sys.argv[1])
place = TrackingPlace(uri=sys.argv[3], artifacts=sys.argv[4])
tracking = open_tracking(store, place)
run_live(tracking, store)
tracking.finish_sweep("finished", SUMMARY)
tracking.close(240)
print(tracking.behind)
"""


@pytest.mark.heavy
def test_a_real_sweep_writes_into_no_mlruns_whatever_the_environment_names(make_sweep, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere}")
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{elsewhere}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    sweep = make_sweep(tracking={"uri": "sqlite:///runs.db", "register": True})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow lacks" not in done.stdout
    assert not elsewhere.exists()
    assert [path for path in tmp_path.rglob("*") if path.name in ("mlruns", "mlartifacts", "mlflow.db")] == []
    assert list(tmp_path.rglob("*.db")) == [sweep.file.parent / "runs.db"]
    place = TrackingPlace(uri=f"sqlite:///{sweep.file.parent}/runs.db", artifacts=None)
    assert {run.info.status for run in named_runs(place, "tiny")} == {"FINISHED"}
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")  # it would send this test's own look elsewhere
    assert len(client_of(place).search_registered_models()) == 2
    assert [run.data.tags["group"] for run in named_runs(place, "tiny") if "similarity" in run.data.tags] == [
        "in_domain",
        "in_domain",
    ]


@pytest.mark.heavy
def test_sweeps_that_start_at_once_on_one_new_database_make_it_once_and_lose_nothing(tmp_path):
    """The schema and the experiment are made by whoever is first, and a locked database is waited for."""
    database = f"sqlite:///{tmp_path}/shared.db"
    folders = [str(tmp_path / f"sweep-{number}") for number in range(4)]
    arguments = (FOLDER, database, (tmp_path / "held").as_uri())
    for process in [start_script(WRITER, folder, *arguments) for folder in folders]:
        out, err = process.communicate(timeout=400)
        assert (process.returncode, out.strip()) == (0, "None"), err
    place = TrackingPlace(uri=database, artifacts=None)
    assert sorted(found.name for found in client_of(place).search_experiments()) == ["Default", "small"]
    assert client_of(place).search_runs(["0"]) == []
    runs = all_runs(place)
    assert len(runs) == len(folders) * (1 + len(TRIALS))
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_whoever_loses_the_race_for_the_experiment_finds_it(store):
    class Late:
        """A client whose first look comes before another sweep makes the experiment, and its making after."""

        def __init__(self, client):
            self._client, self._looked = client, False

        def __getattr__(self, name):
            return getattr(self._client, name)

        def get_experiment_by_name(self, name):
            if not self._looked:
                self._looked = True
                return None
            return self._client.get_experiment_by_name(name)

    place = place_of(store)
    client = open_client(place, "small")
    first = found_experiment(client, "small", place.artifacts)
    assert found_experiment(Late(client), "small", place.artifacts) == first


def double(place, run):
    """Create a run again, as an HTTP client does that sent its request twice since the first answer was lost."""
    client = client_of(place)
    return client.create_run(run.info.experiment_id, start_time=1, tags=run.data.tags, run_name=run.info.run_name)


def test_runs_that_were_created_twice_are_there_once_at_the_end(store):
    tracking = open_tracking(store)
    run_live(tracking, store)
    assert tracking.flush()
    runs = runs_by_name(place_of(store))
    for name in ("small", COSINE.title):
        double(place_of(store), runs[name])
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)
    assert {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()} == {
        name: run.info.run_id for name, run in runs.items()
    }


def test_of_two_runs_of_one_trial_the_one_that_holds_its_rows_stays(store):
    end_everything(store)
    end_sweep(store)
    runs = runs_by_name(place_of(store))
    empty = double(place_of(store), runs[COSINE.title])
    client_of(place_of(store)).delete_tag(empty.info.run_id, "mirrored")
    end_sweep(store)
    assert runs_by_name(place_of(store))[COSINE.title].info.run_id == runs[COSINE.title].info.run_id


def test_a_deleted_experiment_is_brought_back_with_its_runs(store):
    end_trial(store, COSINE)
    end_sweep(store)
    client = client_of(place_of(store))
    before = {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()}
    client.delete_experiment(client.get_experiment_by_name("small").experiment_id)
    end_sweep(store)
    assert {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()} == before


def test_looking_for_runs_makes_no_database(store):
    assert left_running(store, RECORD, place_of(store)) == ()
    assert not place_of(store).own_database.exists()


def test_a_deleted_run_is_made_anew(store):
    end_trial(store, COSINE)
    end_sweep(store)
    client_of(place_of(store)).delete_run(runs_by_name(place_of(store))[COSINE.title].info.run_id)
    end_sweep(store)
    assert steps_of(place_of(store), runs_by_name(place_of(store))[COSINE.title]) == [
        (row["step"], row["loss"]) for row in history(COSINE)
    ]


def test_the_database_of_a_sweep_lets_readers_go_on(store, tmp_path):
    end_sweep(store, TrackingPlace(uri=f"sqlite:///{tmp_path}/runs.db", artifacts=(tmp_path / "held").as_uri()))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


DRIVER_THAT_DIES = """
import os, sys
sys.path.insert(0, sys.argv[2])
from mirrored_sweeps import COSINE, SUMMARY, begin_trial
from mirrors import open_tracking, run_live
from orchestrator.tracking import TrackingPlace
from results.store import open_store
from search_spaces.identity import trial_id
store = open_store(sys.argv[1])
begin_trial(store, COSINE)
tracking = open_tracking(store)
tracking.start(trial_id(COSINE), COSINE)
assert tracking.flush() and tracking.behind is None, tracking.behind
os.kill(os.getpid(), 9)
"""


@pytest.mark.heavy
def test_runs_that_a_killed_driver_left_running_are_found_and_ended(store):
    assert run_script(DRIVER_THAT_DIES, store.uri, FOLDER).returncode == -signal.SIGKILL
    place = place_of(store)
    assert left_running(store, replace(RECORD, name="another"), place) == ()
    assert [found.name for found in client_of(place).search_experiments()] == ["small", "Default"]
    found = left_running(store, RECORD, place)
    assert sorted(run.name for run in found) == sorted(["small", COSINE.title])
    assert {run.info.status for run in all_runs(place)} == {"RUNNING"}  # looking changes nothing
    assert set(end_left_running(store, RECORD, place)) == set(found)
    assert {run.info.status for run in all_runs(place)} == {"KILLED"}
    assert left_running(store, RECORD, place) == ()
