import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_trials import NEVER, data_spec, hash_of, trial_spec, write_collection

from results import layout
from results.layout import Status
from results.rows import read_rows
from results.store import LostLockError, open_store
from search_spaces.identity import trial_id
from search_spaces.problems import InputError, Problem
from search_spaces.specs import EvaluationSpec, SimilaritySpec, TrialSpec, from_json, to_json
from trainers.alone import main
from trainers.failures import reason_of
from trainers.training.resume import CheckpointPolicy, steps_with_checkpoints
from trainers.training.stepping import NonFiniteLossError
from trainers.trial import run_trial
from trainers.trial_hooks import Hooks

DOT = SimilaritySpec(name="dot", gamma_q=0.0, gamma_d=0.0, trained=False)
LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)
FIXED = {"cosine", "dot", "qnorm", "dnorm", "half"}


@pytest.fixture(scope="module", autouse=True)
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        yield write_collection(folder / "collection")


@pytest.fixture
def spec(collection, tiny_bert, make_spec):
    """A trial of three steps."""

    def make(**changes):
        return trial_spec(data_spec(collection, "train"), make_spec(tiny_bert), **{"steps": 3, **changes})

    return make


@pytest.fixture
def evaluation(collection):
    return EvaluationSpec(data=data_spec(collection, "test"))


def run(spec, folder, evaluations=(), *, hooks=None, policy=NEVER):
    return run_trial(
        spec,
        evaluations,
        store=open_store(str(folder)),
        hooks=hooks or Hooks(),
        checkpoint_policy=policy,
        provenance_json='{"packages": {}}',
    )


def rows(folder, key, name):
    return read_rows(open_store(str(folder)), key, name).to_pylist()


def status_of(spec, folder):
    return layout.from_bytes(Status, (folder / layout.status_key(layout.trial_prefix(trial_id(spec)))).read_bytes())


def scored(folder):
    """(checkpoint hash, data set, similarity) of all evaluations, each once."""
    keys = [key for key in open_store(str(folder)).list("evaluations") if key.endswith(".parquet")]
    found = [row for key in keys for row in rows(folder, key, "per_query")]
    return {(row["checkpoint_hash"], row["data_set"], row["score_similarity"]) for row in found}


def test_a_trial_leaves_spec_status_history_row_checkpoint_and_scores(spec, evaluation, tmp_path):
    trial = spec(similarity=LEARNABLE)
    key, phases = trial_id(trial), []
    hooks = Hooks(enter_phase=phases.append)
    status = run(trial, tmp_path, [evaluation], hooks=hooks, policy=CheckpointPolicy(every_steps=1))
    assert status == status_of(trial, tmp_path)
    assert (status.state, status.attempt, status.reason, status.error) == ("finished", 1, None, None)
    assert status.started_at <= status.finished_at
    assert phases == ["training", "evaluating tiny"]
    assert from_json(TrialSpec, (tmp_path / f"trials/{key}/spec.json").read_bytes()) == trial

    [row] = rows(tmp_path, layout.trial_rows(key), "trials")
    history = rows(tmp_path, layout.history_rows(key), "history")
    assert [step["step"] for step in history] == [1, 2, 3]
    assert row["checkpoint_hash"] == hash_of(trial, tmp_path)
    assert row["final_loss"] == history[-1]["loss"]
    assert (row["trial_id"], row["similarity"], row["scale_value"], row["seed"]) == (key, "learnable", 20.0, 7)
    assert (row["training_data"], row["num_pairs"], row["num_negatives"]) == ("tiny", 40, 7)
    assert row["gamma_q"] != 0.5
    assert from_json(TrialSpec, row["spec_json"]) == trial
    assert row["provenance_json"] == '{"packages": {}}'
    assert scored(tmp_path) == {(row["checkpoint_hash"], "tiny", "learnable")}
    assert open_store(str(tmp_path)).list(f"trials/{key}/steps") == []


def test_a_trial_leaves_no_tensor_in_its_process(spec, evaluation, tmp_path):
    """A worker takes one trial after the other: what one leaves, a long sweep runs out of memory by."""
    run(spec(), tmp_path / "first", [evaluation])

    def tensors():
        gc.collect()
        return {id(found): tuple(found.shape) for found in gc.get_objects() if isinstance(found, torch.Tensor)}

    before = tensors()
    run(spec(), tmp_path / "second", [evaluation])
    assert sorted(shape for key, shape in tensors().items() if key not in before) == []


def test_a_finished_trial_trains_no_more_and_a_new_data_set_is_only_evaluated(spec, evaluation, tmp_path):
    trial = spec()
    run(trial, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("trial.parquet")}
    phases = []
    again = run(trial, tmp_path, [evaluation], hooks=Hooks(enter_phase=phases.append))
    assert (again.state, again.attempt, phases) == ("finished", 2, ["evaluating tiny"])
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("trial.parquet")}
    run(trial, tmp_path, [evaluation], hooks=Hooks(enter_phase=phases.append))
    assert phases == ["evaluating tiny"]


def untrained(trial, regime, seed):
    encoder = replace(trial.encoder, init_regime=regime)
    return replace(trial, kind="untrained", encoder=encoder, similarity=None, scale=None, seed=seed, training=None)


@pytest.mark.parametrize(("regime", "seed"), [("finetune", None), ("random", 3)])
def test_an_untrained_trial_scores_its_starting_encoder_with_every_fixed_similarity(
    spec, evaluation, regime, seed, tmp_path
):
    trial = replace(untrained(spec(), regime, seed), training_data=None)
    status = run(trial, tmp_path, [evaluation])
    assert status.state == "finished", status.error
    [row] = rows(tmp_path, layout.trial_rows(trial_id(trial)), "trials")
    empty = ("similarity", "scale_value", "gamma_q", "steps", "final_loss", "train_wall_s", "num_negatives")
    assert {row[name] for name in empty} == {None}
    assert not (tmp_path / layout.history_rows(trial_id(trial))).exists()
    assert scored(tmp_path) == {(row["checkpoint_hash"], "tiny", name) for name in FIXED}


def test_a_failure_is_recorded_with_its_reason_and_can_be_tried_again(spec, tmp_path):
    trial = spec(similarity=DOT, scale=3e38)
    status = run(trial, tmp_path)
    assert status == status_of(trial, tmp_path)
    assert status.state == "failed"
    assert status.reason in ("loss became nan at step 1", "loss became inf at step 1")
    assert "Traceback" in status.error
    assert "NonFiniteLossError" in status.error
    assert not (tmp_path / layout.trial_rows(trial_id(trial))).exists()
    assert run(trial, tmp_path).attempt == 2


def test_a_training_that_diverges_keeps_its_last_good_checkpoint(spec, tmp_path, monkeypatch):
    from trainers.training import objectives

    steps, whole = [], objectives.info_nce

    def poisoned(*args, **kwargs):
        steps.append(len(steps) + 1)
        scored = whole(*args, **kwargs)
        return scored._replace(loss=scored.loss * (float("nan") if len(steps) == 4 else 1))

    monkeypatch.setattr(objectives, "info_nce", poisoned)
    trial = spec(steps=6)
    status = run(trial, tmp_path, policy=CheckpointPolicy(every_steps=1))
    assert (status.state, status.reason) == ("failed", "loss became nan at step 4")
    store = open_store(str(tmp_path))
    assert steps_with_checkpoints(store, trial_id(trial)) == [3]
    with store.get_folder(layout.step_prefix(trial_id(trial), 3)) as folder:
        weights = load_file(folder / "model.safetensors")
    assert weights
    assert all(weight.isfinite().all() for weight in weights.values())


def test_what_a_report_raises_fails_the_trial(spec, tmp_path):
    def full(report):
        raise OSError("no space left")

    status = run(spec(), tmp_path, hooks=Hooks(report=full))
    assert (status.state, status.reason) == ("failed", "OSError: no space left")


def test_data_or_weights_that_changed_since_planning_fail_the_trial(tiny_bert, make_spec, tmp_path):
    collection = write_collection(tmp_path / "collection")
    trial = trial_spec(data_spec(collection, "train"), make_spec(tiny_bert))
    weights = replace(trial.encoder.weights, content_hash="0" * 64)
    status = run(replace(trial, encoder=replace(trial.encoder, weights=weights)), tmp_path / "sweep")
    assert status.reason.startswith(f"ValueError: the weights of path:{tiny_bert} changed")
    qrels = collection / "qrels" / "train.tsv"
    qrels.write_text(qrels.read_text().replace("q0-0\td0\t1", "q0-0\td1\t1"))
    status = run(trial, tmp_path / "sweep")
    assert status.reason.startswith("ValueError: split 'train' of data set 'tiny' changed")
    assert f"{trial.training_data.content_hash} was planned" in status.reason


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, LostLockError])
def test_who_was_told_to_stop_raises_and_goes_on_later(spec, stop, tmp_path):
    def stopping(report):
        raise stop

    trial = spec()
    with pytest.raises(stop):
        run(trial, tmp_path, hooks=Hooks(report=stopping))
    assert status_of(trial, tmp_path).state == "running"
    assert run(trial, tmp_path).state == "finished"


def test_a_trial_without_the_lock_writes_nothing(spec, tmp_path):
    def lost():
        raise LostLockError("another owner")

    with pytest.raises(LostLockError):
        run(spec(), tmp_path, hooks=Hooks(verify=lost))
    assert open_store(str(tmp_path)).list("trials") == []


def too_much_memory():
    try:
        torch.empty(2**60)
    except RuntimeError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NonFiniteLossError(3, float("nan")), "loss became nan at step 3"),
        (MemoryError(), "out of memory: Python could not allocate more"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to\nallocate 2 GiB"), "out of memory: CUDA out of memory."),
        (RuntimeError("size mismatch\n  in line 2"), "RuntimeError: size mismatch in line 2"),
        (ValueError(), "ValueError"),
        (InputError([Problem(where="a.tsv", key="line 3", message="bad")]), "a.tsv: line 3: bad"),
    ],
)
def test_reasons_are_one_line(error, reason):
    assert reason_of(error).startswith(reason)
    assert "\n" not in reason_of(error)


def test_torchs_own_allocation_failure_is_out_of_memory():
    assert reason_of(too_much_memory()).startswith("out of memory: ")


def plan(trial, evaluations, folder):
    store = open_store(str(folder))
    store.write(layout.spec_key(layout.trial_prefix(trial_id(trial))), to_json(trial).encode())
    store.write(layout.evaluations_key(trial_id(trial)), layout.evaluations_to_bytes(evaluations))
    return store


@pytest.mark.slow
def test_alone_in_a_process_of_its_own_gives_the_same_to_the_last_bit(spec, evaluation, tmp_path):
    trial = spec(similarity=LEARNABLE)
    plan(trial, [evaluation], tmp_path / "alone")
    command = [sys.executable, "-m", "trainers.trial", "--sweep", str(tmp_path / "alone"), trial_id(trial)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{trial_id(trial)}: finished"
    assert "step 3/3: loss" in done.stdout
    run(trial, tmp_path / "here", [evaluation])
    [row] = rows(tmp_path / "alone", layout.trial_rows(trial_id(trial)), "trials")
    assert row["checkpoint_hash"] == hash_of(trial, tmp_path / "here")
    assert "torch" in json.loads(row["provenance_json"])["packages"]
    stored = [key for key in open_store(str(tmp_path / "here")).list("evaluations") if key.endswith(".parquet")]
    assert stored
    for key in stored:
        assert rows(tmp_path / "alone", key, "per_query") == rows(tmp_path / "here", key, "per_query")


def test_alone_says_what_it_cannot_run(spec, tmp_path, capsys):
    trial = spec(similarity=DOT, scale=3e38)
    store = plan(trial, [], tmp_path / "sweep")
    key = trial_id(trial)
    assert main(["--sweep", str(tmp_path / "nowhere"), key]) == 2
    assert "nowhere: there is no sweep folder here" in capsys.readouterr().err
    assert main(["--sweep", str(tmp_path / "sweep"), key[:-1]]) == 2
    assert f"is not a trial of this sweep (did you mean '{key}'?)" in capsys.readouterr().err
    lock = store.lock("sweep", owner="elsewhere:1", stale_after_s=30)
    assert main(["--sweep", str(tmp_path / "sweep"), key]) == 2
    assert "this sweep is running already (elsewhere:1" in capsys.readouterr().err
    lock.release()
    assert main(["--sweep", str(tmp_path / "sweep"), key]) == 1
    assert f"{key}: failed: loss became" in capsys.readouterr().out
