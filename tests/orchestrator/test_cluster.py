"""Sweeps on real Ray clusters of several nodes, which are lost while they run."""

import gc
import signal
import weakref

import pytest
import ray
from nodes import ENVIRONMENT, ray_cluster
from outcomes import assert_same_outcome, checkpoints_of
from runners import runners, runs_on
from small_sweeps import Sweep

from orchestrator.cluster import Cluster, connected
from results.layout import SWEEP_LOCK
from results.locks import is_held
from results.store import open_store
from tests.benchmarks.tiny_sweep import write_tiny_sweep

DEADLINE_S = 600
SETTINGS = {
    "training": {"steps": 600, "global_batch": 8, "learning_rate": 1e-4},
    "checkpoints": {"every_steps": 50},
}


def _sweep(home, num_seeds=2, **blocks):
    file = write_tiny_sweep(home, num_seeds=num_seeds, **SETTINGS, **blocks)
    return Sweep(file=file, folder=home / "sweep")


@pytest.mark.heavy
def test_of_two_nodes_one_is_lost_and_the_other_carries_on(tmp_path):
    # As many trials as it takes until both nodes are at work together: their first workers start one after the other.
    undisturbed, sweep = (_sweep(tmp_path / name, num_seeds=4) for name in ("undisturbed", "disturbed"))
    done = undisturbed.run()
    assert done.returncode == 0, done.stdout + done.stderr
    with ray_cluster() as cluster:
        nodes = [cluster.add(ip, num_cpus=1) for ip in ("127.0.0.3", "127.0.0.4")]
        driver = sweep.start("run", sweep.file.name, "--address", cluster.address, **ENVIRONMENT)
        found = sweep.wait_for(lambda sweep: both if len(both := runners(sweep)) == 2 else None, deadline_s=DEADLINE_S)
        (lost, pid), (_, other) = found.items()
        [doomed] = [node for node in nodes if runs_on(node, pid)]
        assert not runs_on(doomed, other)
        doomed.kill()
        out, err = driver.communicate(timeout=DEADLINE_S)
        assert driver.returncode == 0, out + err + sweep.logs()
    statuses = sweep.statuses()
    assert {status["state"] for status in statuses.values()} == {"finished"}
    assert [title for title, status in statuses.items() if status["attempt"] > 1] == [lost]
    assert out.count("will be tried again (worker died: ") == 1
    assert_same_outcome(sweep, undisturbed)


@pytest.mark.heavy
def test_lost_nodes_and_a_lost_head_change_no_number(tmp_path):
    undisturbed, disturbed = (_sweep(tmp_path / name) for name in ("undisturbed", "disturbed"))
    done = undisturbed.run()
    assert done.returncode == 0, done.stdout + done.stderr

    with ray_cluster() as cluster:
        lost = cluster.add("127.0.0.3", num_cpus=1)
        too_large = _sweep(tmp_path / "too-large", resources={"cpus": 2})
        arguments = ("--address", cluster.address, "--placement-timeout", "1")
        refused = too_large.command("run", too_large.file.name, *arguments, **ENVIRONMENT)
        assert refused.returncode == 1, refused.stdout + refused.stderr
        lacking = "a trial needs 2 CPUs on one node, but no node has that: 1 node with 0 CPUs; 1 node with 1 CPU"
        assert f"Stopped: {lacking}. To go on: densesweep run sweep.yaml" in refused.stdout
        assert {status["state"] for status in too_large.statuses().values()} == {"failed"}

        driver = disturbed.start("run", disturbed.file.name, "--address", cluster.address, **ENVIRONMENT)
        disturbed.wait_for(lambda sweep: sweep.training_checkpoints(), deadline_s=DEADLINE_S)
        lost.kill()  # the only node there is
        cluster.add("127.0.0.4", num_cpus=1)
        disturbed.wait_for(
            lambda sweep: any(
                status["attempt"] == 2 and status["state"] == "running" for status in sweep.statuses().values()
            ),
            deadline_s=DEADLINE_S,
        )
        cluster.head.kill()
        out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 1, out + err
    assert "will be tried again (worker died: " in out
    assert f"Stopped: the head of the Ray cluster at {cluster.address} is gone. To go on: densesweep run" in out
    assert len(checkpoints_of(disturbed)) < 3, "killed too late to show anything"

    again = disturbed.run()  # on this machine now
    assert again.returncode == 0, again.stdout + again.stderr + disturbed.logs()
    assert_same_outcome(disturbed, undisturbed)


@pytest.mark.heavy
def test_a_head_that_is_not_there_is_refused(make_sweep):
    sweep = make_sweep()
    refused = sweep.command("run", sweep.file.name, "--address", "127.0.0.1:1")
    assert refused.returncode == 2
    assert "error: --address: no Ray head answers at 127.0.0.1:1" in refused.stderr
    refused = sweep.command("run", sweep.file.name, RAY_ADDRESS="ray://127.0.0.1:1")
    assert refused.returncode == 2
    assert "error: RAY_ADDRESS: 'ray://127.0.0.1:1' is no address of a Ray head" in refused.stderr


@pytest.mark.heavy
def test_ctrl_c_twice_ends_at_once(tmp_path):
    sweep = _sweep(tmp_path)
    driver = sweep.start("run", sweep.file.name)
    sweep.wait_for(lambda sweep: sweep.training_checkpoints())
    driver.send_signal(signal.SIGINT)
    assert "Stopping after the steps under way" in _read_until(driver, "Stopping")
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 130, out + err
    assert "Stopped at once. To go on: " in out
    assert not is_held(open_store(str(sweep.folder)), SWEEP_LOCK)


def _read_until(driver, word):
    for line in driver.stdout:
        if word in line:
            return line
    raise AssertionError(f"'{word}' was not printed")


class Cycle:
    """Garbage that holds a reference to an object of Ray's."""

    def __init__(self):
        self.itself, self.reference = self, ray.put(1)


@pytest.mark.slow
def test_no_garbage_refers_to_ray_when_it_is_shut_down():
    """Freed meanwhile by another thread it would end the process, with exit code 1 and no word."""
    freed_while_connected = []
    gc.collect()
    gc.disable()  # as if nothing were allocated until then
    try:
        with connected(Cluster(num_cpus=1), on_head_lost=print):
            weakref.finalize(Cycle(), lambda: freed_while_connected.append(ray.is_initialized()))
    finally:
        gc.enable()
    assert freed_while_connected == [True]
