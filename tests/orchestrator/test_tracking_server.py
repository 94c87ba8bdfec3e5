"""A tracking server that is away, hangs, dies and comes back: nothing is lost, and nothing waits for it."""

import contextlib
import json
import select
import socket

import pytest
from mirrored_sweeps import COSINE, SUMMARY, begin_trial, history
from mirrors import Server, named_runs, open_tracking, run_live, runs_by_name, steps_of

from orchestrator import background
from orchestrator.tracking import TrackingPlace
from results import layout
from results.rows import write_rows
from search_spaces.identity import trial_id


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    started = Server(folder)
    started.start()
    yield started
    started.kill()


def _requests(silent: socket.socket) -> list[socket.socket]:
    """The connections that wait for somebody to take them. One that is closed makes place for the next request."""
    silent.setblocking(False)
    asked = []
    with contextlib.suppress(BlockingIOError):
        while True:
            asked.append(silent.accept()[0])
    return asked


def test_a_sweep_waits_for_no_answer_and_a_server_that_goes_away_costs_nothing(store, monkeypatch):
    """It takes one request and never answers: every call of the sweep has come back while that one still waits."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = TrackingPlace(uri=f"http://127.0.0.1:{silent.getsockname()[1]}", artifacts=None)
        tracking = open_tracking(store, place)
        run_live(tracking, store)
        tracking.finish_sweep("finished", SUMMARY)
        assert not tracking.flush(0.0)
        assert tracking.behind is None
        select.select([silent], [], [])  # until it was asked
        [request] = _requests(silent)
    request.close()
    tracking.close()
    assert tracking.behind is not None
    assert "end of the sweep" in tracking.behind


def test_a_server_that_never_answers_is_not_asked_at_the_end_of_each_trial(store, monkeypatch):
    """It takes connections and says nothing: each try costs a time-out, so tries are few and far between."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = TrackingPlace(uri=f"http://127.0.0.1:{silent.getsockname()[1]}", artifacts=None)
        tracking = open_tracking(store, place)
        assert tracking.flush()
        for _ in range(20):
            run_live(tracking, store)
        assert tracking.flush()
        assert tracking.behind is not None
        assert len(_requests(silent)) <= 3
        tracking.close()


@pytest.mark.heavy
def test_a_server_that_comes_back_has_the_curve_of_a_trial_that_still_runs(server, store, monkeypatch):
    monkeypatch.setattr(background, "FIRST_RETRY_S", 0.0)
    tracking = open_tracking(store, server.place)
    begin_trial(store, COSINE)
    tracking.start(trial_id(COSINE), COSINE)
    tracking.log_steps(trial_id(COSINE), history(COSINE, 1, 2))
    assert tracking.flush()
    server.kill()
    tracking.log_steps(trial_id(COSINE), history(COSINE, 3, 4))
    assert tracking.flush()
    assert tracking.behind is not None
    server.start()
    write_rows(store, f"{layout.step_prefix(trial_id(COSINE), 6)}/history.parquet", "history", history(COSINE, 1, 6))
    tracking.log_steps(trial_id(COSINE), history(COSINE, 5, 6))
    assert tracking.flush()
    assert tracking.behind is None
    run = runs_by_name(server.place)[COSINE.title]
    assert run.info.status == "RUNNING"
    assert [step for step, _ in steps_of(server.place, run)] == [1, 2, 3, 4, 5, 6]
    tracking.close()


@pytest.mark.heavy
def test_a_server_killed_during_a_real_sweep_gets_the_rest_from_sync(server, make_sweep):
    sweep = make_sweep(tracking={"uri": server.place.uri})
    process = sweep.start("run", sweep.file.name)
    sweep.wait_for(lambda _: process.poll() is not None or named_runs(server.place, "tiny"))
    server.kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    assert "MLflow lacks something" in out
    assert f"densesweep sync {sweep.folder}" in out

    behind = sweep.command("sync", str(sweep.folder))
    assert behind.returncode == 1, behind.stdout + behind.stderr
    assert "Nothing is lost" in behind.stdout
    server.start()
    sent = sweep.command("sync", str(sweep.folder))
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "holds all of 'tiny'" in sent.stdout
    runs = named_runs(server.place, "tiny")
    record = json.loads((sweep.folder / "sweep.json").read_text())
    titles = [planned["title"] for planned in (*record["trials"], *record["probes"])]
    assert sorted(run.info.run_name for run in runs) == sorted(["tiny", *titles])
    assert {run.info.status for run in runs} == {"FINISHED"}
    for run in runs:
        if run.data.tags["kind"] == "train":
            assert [step for step, _ in steps_of(server.place, run)] == [1, 2, 3, 4, 5, 6]
    again = sweep.command("run", sweep.file.name)
    assert "Nothing is left to run" in again.stdout
