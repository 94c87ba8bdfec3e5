"""Memory really runs out, in each way that it can, and the trial's reason says so and what helps."""

import os
import resource

import psutil
import pytest
from out_of_memory import cgroup

from orchestrator.machine import oom_kills
from trainers.failures import REMEDY

pytestmark = pytest.mark.heavy

STEPS = {"steps": 400, "global_batch": 8, "learning_rate": 1e-4}
ONE_AT_A_TIME = {"cpus": 1, "at_once": 1, "retries": 0, "stop_after_failures": 1}
DEADLINE_S = 600


def _training_process(sweep) -> psutil.Process | None:
    """The process that trains a trial, once it has written a checkpoint."""
    if not sweep.training_checkpoints():
        return None
    owners = [status["owner"] for status in sweep.statuses().values() if status["state"] == "running"]
    return psutil.Process(int(owners[0].rpartition(":")[2])) if owners else None


def _reason(sweep) -> str:
    [reason] = [status["reason"] for status in sweep.statuses().values() if status["state"] == "failed"]
    return reason


def test_a_worker_that_the_kernel_ended_ran_out_of_memory(make_sweep):
    sweep = make_sweep(training=STEPS, resources=ONE_AT_A_TIME)
    with cgroup(f"densesweep-test-{os.getpid()}") as limit:
        driver = sweep.start("run", sweep.file.name)
        process = sweep.wait_for(_training_process)
        before = oom_kills()
        (limit.parent / "cgroup.procs").write_text(str(process.pid))
        limit.write_text("1000000")  # of what it takes from now on
        out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 1, out + err
    assert oom_kills() > before
    assert _reason(sweep) == f"out of memory: the kernel ended the worker; {REMEDY}"


def test_a_worker_that_rays_monitor_ended_ran_out_of_memory(make_sweep):
    sweep = make_sweep(training=STEPS, resources=ONE_AT_A_TIME)
    done = sweep.command("run", sweep.file.name, RAY_memory_usage_threshold="0.01", RAY_memory_monitor_refresh_ms="100")
    assert done.returncode == 1, done.stdout + done.stderr
    assert _reason(sweep).startswith("out of memory: Ray ended the worker")
    assert _reason(sweep).endswith(REMEDY)
    assert "Stopped: the first 1 trials all failed, the last with: out of memory" in done.stdout


def test_an_allocation_that_fails_is_out_of_memory(make_sweep):
    sweep = make_sweep(training=STEPS, resources=ONE_AT_A_TIME)
    driver = sweep.start("run", sweep.file.name)
    process = sweep.wait_for(_training_process)
    mapped = process.memory_info().vms
    process.rlimit(resource.RLIMIT_AS, (mapped, mapped))  # nothing more
    out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 1, out + err
    assert _reason(sweep).startswith("out of memory: ")
    assert _reason(sweep).endswith(REMEDY)


def test_kills_are_counted_in_the_container_first(tmp_path):
    events, machine = tmp_path / "memory.events", tmp_path / "vmstat"
    machine.write_text("nr_free_pages 9\noom_kill 7\n")
    assert oom_kills((events, machine)) == 7
    events.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert oom_kills((events, machine)) == 2
    assert oom_kills((tmp_path / "absent",)) is None
