"""A real `mlflow server` on a real PostgreSQL: eight sweeps write at once, and the server dies while they do."""

import json

import pytest
from mirrored_sweeps import COSINE, FOLDER, QNORM, SUMMARY, TRIALS, UNTRAINED, begin_trial, end_trial, history
from mirrors import (
    Server,
    all_runs,
    client_of,
    close,
    named_runs,
    open_tracking,
    place_of,
    run_live,
    runs_by_name,
    snapshot,
    start_script,
    steps_of,
)
from postgres import Postgres
from small_sweeps import Sweep

from orchestrator import background
from orchestrator.tracking import sweep_id
from results.layout import history_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import trial_id
from tests.benchmarks.tiny_sweep import write_tiny_sweep

NUM_WRITERS = 8
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from mirrored_sweeps import COSINE, SUMMARY, begin_trial
from mirrors import open_tracking, run_live
from orchestrator.tracking import TrackingPlace
from results.store import open_store
from search_spaces.identity import trial_id
store = open_store(sys.argv[1])
tracking = open_tracking(store, TrackingPlace(uri=sys.argv[3], artifacts=None))
run_live(tracking, store)
tracking.finish_sweep("finished", SUMMARY)
tracking.close(240)
print(tracking.behind)
"""


@pytest.fixture(scope="module")
def postgres():
    cluster = Postgres()
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def server(postgres, tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    started = Server(folder, postgres.uri)
    started.start()
    yield started
    started.kill()


@pytest.mark.heavy
def test_eight_sweeps_of_one_name_that_start_at_once_lose_no_run(server, tmp_path):
    folders = [str(tmp_path / f"sweep-{number}") for number in range(NUM_WRITERS)]
    started = [start_script(WRITER, folder, FOLDER, server.place.uri) for folder in folders]
    for process in started:
        out, err = process.communicate(timeout=400)
        assert (process.returncode, out.strip()) == (0, "None"), err

    client = client_of(server.place)
    assert sorted(experiment.name for experiment in client.search_experiments()) == ["Default", "small"]
    assert client.search_runs(["0"]) == []
    by_sweep = {}
    for run in all_runs(server.place):
        by_sweep.setdefault(run.data.tags["sweep_id"], []).append(run)
    assert set(by_sweep) == {sweep_id(open_store(folder)) for folder in folders}
    for runs in by_sweep.values():
        assert sorted(run.info.run_name for run in runs) == sorted(["small", *(spec.title for spec in TRIALS)])
        assert {run.info.status for run in runs} == {"FINISHED"}
        [parent] = [run for run in runs if run.data.tags["kind"] == "sweep"]
        children = [run for run in runs if run is not parent]
        assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
        for spec in (COSINE, QNORM):
            [run] = [run for run in children if run.info.run_name == spec.title]
            assert steps_of(server.place, run) == [(row["step"], row["loss"]) for row in history(spec)]
            assert run.data.metrics["nDCG_10/attack"] == pytest.approx(0.6)


@pytest.mark.heavy
def test_a_real_sweep_goes_on_while_its_server_is_away_and_ends_with_all_of_it_there(server, tmp_path):
    training = {"steps": 400, "global_batch": 8, "learning_rate": 1e-4}
    blocks = {"training": training, "checkpoints": {"every_steps": 50}, "tracking": {"uri": server.place.uri}}
    sweep = Sweep(file=write_tiny_sweep(tmp_path / "home", num_seeds=4, **blocks), folder=tmp_path / "home" / "sweep")
    driver = sweep.start("run", sweep.file.name)
    sweep.wait_for(lambda sweep: sweep.training_checkpoints())
    server.kill()
    before = _finished(sweep)
    sweep.wait_for(lambda sweep: _finished(sweep) - before)
    server.start()
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 0, out + err + sweep.logs()
    assert "MLflow lacks" not in out
    assert "behind until" in sweep.logs(), "the server was away too shortly to show anything"

    runs = runs_by_name(server.place, named_runs(server.place, "tiny"))
    record = json.loads((sweep.folder / "sweep.json").read_text())
    titles = [planned["title"] for planned in (*record["trials"], *record["probes"])]
    assert sorted(runs) == sorted(["tiny", *titles])
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    store = open_store(str(sweep.folder))
    for trial in record["trials"]:
        run = runs[trial["title"]]
        if run.data.tags["kind"] == "train":
            rows = read_rows(store, history_rows(trial["trial_id"]), "history").to_pylist()
            assert len(rows) == training["steps"]
            assert steps_of(server.place, run) == [(row["step"], row["loss"]) for row in rows]


def _finished(sweep):
    there = (sweep.folder / "sweep.json").exists()
    return {title for title, status in sweep.statuses().items() if status["state"] == "finished"} if there else set()


@pytest.mark.heavy
def test_a_server_killed_during_a_sweep_ends_with_the_runs_of_an_undisturbed_one(server, store, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "FIRST_RETRY_S", 0.0)  # of the clock, only that it has come
    tracking = open_tracking(store, server.place)
    run_live(tracking, store, [COSINE])
    begin_trial(store, QNORM)
    tracking.start(trial_id(QNORM), QNORM)
    tracking.log_steps(trial_id(QNORM), history(QNORM, 1, 4))
    assert tracking.flush()
    assert tracking.behind is None
    server.kill()
    tracking.log_steps(trial_id(QNORM), history(QNORM, 5, 8))
    assert tracking.flush()
    assert tracking.behind is not None
    tracking.log_steps(trial_id(QNORM), history(QNORM, 9))
    end_trial(store, QNORM)
    run_live(tracking, store, [UNTRAINED])
    assert tracking.flush()
    assert tracking.behind is not None
    server.start()
    tracking.finish(trial_id(QNORM))
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)

    undisturbed = open_store(str(tmp_path / "undisturbed"))
    calm = open_tracking(undisturbed)
    run_live(calm, undisturbed)
    calm.finish_sweep("finished", SUMMARY)
    close(calm)
    mirrored = [run for run in all_runs(server.place) if run.data.tags["sweep_id"] == sweep_id(store)]
    assert {run.info.status for run in mirrored} == {"FINISHED"}
    assert snapshot(server.place, tmp_path / "a", mirrored) == snapshot(place_of(undisturbed), tmp_path / "b")
