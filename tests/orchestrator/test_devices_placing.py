"""Where trials on several devices find their place, or none, and how one of their processes ends them all."""

from pathlib import Path
from typing import Any

import pytest
from two_devices import DEADLINE_S, needs_two_cpus, two_device_sweep

from orchestrator.checks import machine_problems
from orchestrator.cluster import Cluster
from orchestrator.interrupt import interruptible
from orchestrator.machine import available_cpus
from orchestrator.placing import Driver, Work, place
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.tuning.desk import Desk
from orchestrator.tuning.studies import Studies
from orchestrator.worker import join_placed_trial, record_end
from results.layout import SWEEP_LOCK, Status, from_bytes, spec_key, status_key, trial_prefix
from results.store import LostLockError, open_store
from search_spaces.schema import CheckpointsBlock, ResourcesBlock
from search_spaces.specs import to_json


def _no_studies(home: Path, events: list[Any]) -> Studies:
    store = open_store(str(home / "sweep"))
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=DEADLINE_S)
    lock.release()  # nothing is written
    plan = make_plan(resolve(two_device_sweep(home, devices=1).file), None)
    return Studies([], Desk(plan, store, lock, listener=events.append, say=print), num_trainings=None)


@pytest.mark.heavy
def test_devices_that_ray_does_not_find_fail_the_trial_at_once(tmp_path):
    resources = ResourcesBlock(devices=2, cpus=1)
    work = Work(
        store_uri="",
        lock_token=1,
        trials=(),
        groups=("a",),
        probes=(),
        cluster=Cluster(num_cpus=1),
        resources=resources,
        checkpoints=CheckpointsBlock(),
    )
    events: list[Any] = []
    with interruptible(lambda: None, lambda: None) as interrupt:
        driver = Driver(
            listener=events.append,
            interrupt=interrupt,
            record_failure=lambda key, reason: Status(state="failed", reason=reason, started_at=""),
            say=print,
            spent=lambda: None,
            on_head_lost=print,
            studies=_no_studies(tmp_path, events),
        )
        ended_early = place(work, driver)
    lacking = "a trial needs 1 CPU for each of 2 processes, but the nodes have no room for that: 1 node with 1 CPU"
    assert ended_early == lacking
    [ended] = events
    assert ended.key == "a"
    assert ended.status.reason == f"found no place: {lacking}"


@pytest.fixture
def config(tmp_path):
    """What a worker is given for a trial on two devices that was planned."""
    plan = make_plan(resolve(two_device_sweep(tmp_path, devices=2).file), None)
    [trial] = [trial for trial in plan.trials if trial.is_trained_together]
    store = open_store(str(tmp_path / "sweep"))
    store.write(spec_key(trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    yield {"trial_id": trial.trial_id, "store_uri": store.uri, "lock_token": lock.token}
    lock.release()


@needs_two_cpus
def test_a_failure_that_another_process_saw_is_the_trials_end(config):
    sent: list[dict[str, Any]] = []
    with pytest.raises(ValueError, match="devices is 2, but this process was launched with 1"):
        join_placed_trial(config, sent.append)
    [[ended]] = [message["events"] for message in sent]
    assert ended.key == config["trial_id"]
    assert ended.status.state == "failed"
    assert ended.status.reason.startswith("ValueError: the trial's number of devices is 2")
    assert "Traceback" in ended.status.error

    store, key = open_store(config["store_uri"]), status_key(trial_prefix(config["trial_id"]))
    assert not store.exists(key)  # only the first process writes, and who stands for them all when they have ended
    record_end(config, ended.status)
    assert from_bytes(Status, store.read(key)) == ended.status


@needs_two_cpus
def test_an_end_is_not_recorded_under_a_lost_lock(config):
    status = Status(state="failed", reason="any", started_at="2026-01-01T00:00:00+00:00")
    with pytest.raises(LostLockError):
        record_end(config | {"lock_token": config["lock_token"] - 1}, status)
    assert not open_store(config["store_uri"]).exists(status_key(trial_prefix(config["trial_id"])))


def test_a_machine_too_small_for_all_devices_is_refused():
    num_cpus = available_cpus()
    [problem] = machine_problems(ResourcesBlock(devices=num_cpus + 1, cpus=1), "sweep.yaml")
    expected = f"sweep.yaml: resources.devices: 1 CPUs for each of the {num_cpus + 1} devices of one trial are "
    assert str(problem) == f"{expected}{num_cpus + 1}, but this machine has {num_cpus}"
    problems = [str(problem) for problem in machine_problems(ResourcesBlock(devices=1000, cpus=1, gpus=1), "f")]
    assert problems[1].startswith("f: resources.gpus: 1 GPUs for each of the 1000 devices of one trial are 1000, but")


def test_devices_do_not_share_a_gpu():
    problems = list(machine_problems(ResourcesBlock(devices=2, cpus=1, gpus=0.5), "f"))
    [problem] = [problem for problem in problems if problem.key == "resources.gpus"]
    assert "0.5 of a GPU for each of the 2 devices of one trial, but those that train together share none" in str(
        problem
    )


@pytest.mark.parametrize(
    ("num_cpus", "resources", "expected"),
    [
        (4, {"devices": 2, "cpus": 2, "at_once": 1}, 4),
        (5, {"devices": 2, "cpus": 1, "at_once": 3}, 2),
        (4, {"cpus": 2, "at_once": 2}, 2),
        (8, {"devices": 4, "cpus": 1}, 1),
    ],
)
def test_what_runs_in_one_process_keeps_to_at_once_too(num_cpus, resources, expected):
    work = Work(
        store_uri="",
        lock_token=1,
        trials=(),
        groups=(),
        probes=(),
        cluster=Cluster(num_cpus=num_cpus),
        resources=ResourcesBlock(**resources),
        checkpoints=CheckpointsBlock(),
    )
    assert (work.single.cpus, work.probe.cpus) == (expected, expected)
