"""Trials on two devices whose processes are killed, or that are stopped: they give what undisturbed ones give."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_sweeps import Sweep
from two_devices import (
    DEADLINE_S,
    LEARNABLE,
    accelerate,
    checkpoint_hash,
    driver_of,
    ended,
    needs_two_cpus,
    rows_of,
    run_alone,
    run_to_its_end,
    trained_folders,
    two_device_sweep,
)

from orchestrator.machine import available_cpus

TUNE_FUNCTION, TRAIN_CONTROLLER, FIRST_PROCESS, OTHER_PROCESS = (
    "ImplicitFunc",
    "TrainController",
    "RayTrainWorker, the first",
    "RayTrainWorker, the other",
)


def _kill(driver: subprocess.Popen, what: str, *, owner: int) -> None:
    """kill -9 one of the processes that a trial on two devices has; `owner` is the first of the two that train it."""
    name, _, which = what.partition(", the ")
    [pid] = [
        process.pid
        for process in psutil.Process(driver.pid).children(recursive=True)
        if f"ray::{name}" in " ".join(process.cmdline()) and (not which or (process.pid == owner) == (which == "first"))
    ]
    os.kill(pid, signal.SIGKILL)


def _owner(folder: Path) -> int:
    """The pid of a trial's first process."""
    return int(json.loads((folder / "status.json").read_text())["owner"].rpartition(":")[2])


def _last_step(folder: Path) -> int:
    """The step of a trial's newest training checkpoint, 0 before the first."""
    return max((int(path.name) for path in folder.glob("steps/*") if path.name.isdigit()), default=0)


@pytest.mark.heavy
@needs_two_cpus
def test_killed_and_interrupted_under_ray_a_trial_gives_what_it_gives_alone(tmp_path):
    sweep = two_device_sweep(tmp_path, devices=2, steps=200)
    with driver_of(sweep) as driver:

        def wait_for(seen: Callable[[Sweep], Any]) -> Any:
            return sweep.wait_for(seen, deadline_s=DEADLINE_S)

        def status() -> dict[str, Any]:
            return json.loads((trial / "status.json").read_text())

        trial = wait_for(lambda _: (sweep.folder / "sweep.json").exists() and trained_folders(sweep)[LEARNABLE])
        wait_for(lambda _: _last_step(trial))
        _kill(driver, OTHER_PROCESS, owner=_owner(trial))
        killed_after = _last_step(trial)
        wait_for(lambda _: status()["attempt"] == 2 and _last_step(trial) > killed_after + 4)
        driver.send_signal(signal.SIGINT)
        stopped = ended(driver)
    assert stopped.returncode == 130, stopped.stdout + stopped.stderr
    assert "ActorDiedError" in stopped.stdout  # why it was tried again
    assert status()["state"] == "running", "stopped too late to show anything"

    again = run_to_its_end(sweep)
    assert again.returncode == 0, again.stdout + again.stderr + sweep.logs()
    assert status()["attempt"] == 3
    launched = run_alone(sweep, tmp_path / "alone", *accelerate("--multi_gpu", "--num_processes", "2"))
    assert launched.returncode == 0, launched.stdout + launched.stderr
    assert launched.stdout.count(f"{trial.name}: finished") == 1
    alone = tmp_path / "alone" / "trials" / trial.name
    assert rows_of(alone, "history", "history") == rows_of(trial, "history", "history")
    assert checkpoint_hash(alone) == checkpoint_hash(trial)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained trial of a sweep on two devices that nothing happened to."""
    sweep = two_device_sweep(tmp_path_factory.mktemp("undisturbed"), devices=2, steps=100)
    done = run_to_its_end(sweep)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    return trained_folders(sweep)[LEARNABLE]


@pytest.mark.heavy
@needs_two_cpus
@pytest.mark.parametrize("what", [TUNE_FUNCTION, TRAIN_CONTROLLER, FIRST_PROCESS])
def test_whatever_is_killed_the_trial_gets_its_devices_again_and_gives_the_same(tmp_path, undisturbed, what):
    sweep = two_device_sweep(tmp_path, devices=2, steps=100)
    with driver_of(sweep) as driver:
        trial = sweep.wait_for(
            lambda _: (sweep.folder / "sweep.json").exists() and trained_folders(sweep)[LEARNABLE],
            deadline_s=DEADLINE_S,
        )
        sweep.wait_for(lambda _: _last_step(trial), deadline_s=DEADLINE_S)
        _kill(driver, what, owner=_owner(trial))
        done = ended(driver)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "will be tried again" in done.stdout
    assert sweep.statuses()[LEARNABLE]["attempt"] == 2
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
    assert rows_of(trial, "history", "history") == rows_of(undisturbed, "history", "history")
    assert checkpoint_hash(trial) == checkpoint_hash(undisturbed)


@pytest.mark.heavy
@needs_two_cpus
def test_when_no_try_is_left_the_devices_go_to_the_next_trial(tmp_path):
    resources = {"devices": 2, "cpus": available_cpus() // 2, "threads": 1, "chunk_size": 4, "retries": 0}
    sweep = two_device_sweep(tmp_path, devices=2, steps=100, resources=resources)
    with driver_of(sweep) as driver:
        trial = sweep.wait_for(
            lambda _: (sweep.folder / "sweep.json").exists() and trained_folders(sweep)[LEARNABLE],
            deadline_s=DEADLINE_S,
        )
        sweep.wait_for(lambda _: _last_step(trial), deadline_s=DEADLINE_S)
        _kill(driver, TUNE_FUNCTION, owner=_owner(trial))
        done = ended(driver)
    assert done.returncode == 1, done.stdout + done.stderr + sweep.logs()
    states = {title: status["state"] for title, status in sweep.statuses().items()}
    assert states.pop(LEARNABLE) == "failed"
    assert set(states.values()) == {"finished"}
