"""Trials on two devices: real Ray, two gloo processes each, against the same trials on one."""

from datetime import datetime

import pytest
import torch
from small_sweeps import Sweep
from two_devices import (
    LEARNABLE,
    STEPS,
    accelerate,
    needs_two_cpus,
    rows_of,
    run_alone,
    run_to_its_end,
    trained_folders,
    two_device_sweep,
    weights_of,
)

# Sums over processes round differently: losses were seen to differ by 5e-7 of their value, weights by 3e-8, where one
# step at the learning rate moves a weight by 1e-4.
LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def on_one(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    sweep = two_device_sweep(tmp_path_factory.mktemp("one"), devices=1)
    done = run_to_its_end(sweep)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    return sweep


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The same, and a trial that must fail: its scale is beyond float32."""
    sweep = two_device_sweep(
        tmp_path_factory.mktemp("two"), devices=2, include=[{"similarity": "dot", "scale": f"fixed({10**39})"}]
    )
    done = run_to_its_end(sweep)
    assert done.returncode == 1, done.stdout + done.stderr + sweep.logs()
    return sweep


@pytest.mark.heavy
@needs_two_cpus
def test_two_devices_train_what_one_trains(on_one, on_two):
    ours, theirs = (trained_folders(sweep)[LEARNABLE] for sweep in (on_two, on_one))
    assert ours.name == theirs.name  # what a trial runs on is no part of its identity
    history, expected = (rows_of(trial, "history", "history") for trial in (ours, theirs))
    assert [row["step"] for row in history] == list(range(1, STEPS + 1))
    for name in ("loss", "gradient_norm", "gamma_q", "gamma_d", "negatives_per_query"):
        assert [row[name] for row in history] == pytest.approx([row[name] for row in expected], rel=LOSS_TOLERANCE)
    assert min(row["negatives_per_query"] for row in history) < 16 * 3 - 1, "no batch held a duplicate"
    weights = weights_of(theirs)
    for name, weight in weights_of(ours).items():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=WEIGHT_TOLERANCE)


@pytest.mark.heavy
@needs_two_cpus
def test_trials_that_fill_the_machine_run_one_after_the_other(on_two):
    statuses = on_two.statuses()
    assert len(statuses) == 3  # with the untrained one, which takes one process
    spans = [
        (datetime.fromisoformat(status["started_at"]), datetime.fromisoformat(status["finished_at"]))
        for title, status in statuses.items()
        if "untrained" not in title
    ]
    for (_, finished), (started, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
        assert finished <= started
    assert len(list((on_two.folder / "probes").rglob("probes.parquet"))) == 2  # of two scales


@pytest.mark.heavy
@needs_two_cpus
def test_a_trial_that_fails_on_all_its_devices_is_recorded_once(on_two):
    statuses = on_two.statuses()
    failed = statuses.pop("tiny/finetune/dot/s0")
    assert failed["state"] == "failed"
    assert "at step 1" in failed["reason"]
    assert "Traceback" in failed["error"]
    assert failed["attempt"] == 1  # a trial that fails by itself is not tried again
    assert {status["state"] for status in statuses.values()} == {"finished"}


@pytest.mark.heavy
@needs_two_cpus
@pytest.mark.parametrize("launcher", [(), accelerate("--cpu", "--num_processes", "2")])
def test_a_trial_alone_in_too_few_processes_is_refused(tmp_path, on_two, launcher):
    refused = run_alone(on_two, tmp_path, *launcher)
    assert refused.returncode != 0
    assert "is trained in 2 processes, but was launched in 1" in refused.stderr
    assert "--num_processes 2 -m trainers.trial" in refused.stderr
    assert not list(tmp_path.rglob("status.json"))
