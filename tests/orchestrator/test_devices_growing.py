"""Trials on several devices on a cluster whose nodes come for what waits for them, as an autoscaler's do."""

import json
import subprocess
import sys

import pytest
from nodes import ENVIRONMENT, ray_cluster
from two_devices import DEADLINE_S, ended, two_device_sweep

# What an autoscaler sees: each group of processes that waits for its devices.
WAITING = """
import json, sys, ray
from ray.util import placement_group_table
ray.init(address=sys.argv[1], log_to_driver=False)
groups = placement_group_table().values()
print(json.dumps([len(one["bundles"]) for one in groups if one["state"] == "PENDING" and len(one["bundles"]) > 1]))
"""


def _waiting(address):
    done = subprocess.run([sys.executable, "-c", WAITING, address], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.heavy
def test_as_many_wait_as_will_fit_and_nodes_that_come_run_them(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    axes = {
        "task": "contrastive",
        "training_data": "zoo",
        "family": "tiny",
        "similarity": "cosine",
        "init_regime": "finetune",
        "seed": [0, 1, 2],
        "scale": "fixed(20)",
    }
    resources = {"devices": 2, "cpus": 1, "threads": 1, "chunk_size": 4}
    sweep = two_device_sweep(tmp_path / "home", devices=2, steps=4, axes=axes, resources=resources)
    with ray_cluster() as cluster:
        driver = sweep.start("run", sweep.file.name, "--address", cluster.address, "--groups-at-once", "2")
        try:
            sweep.wait_for(lambda _: len(_waiting(cluster.address)) >= 2, deadline_s=DEADLINE_S)
            assert _waiting(cluster.address) == [2, 2]
            for ip in ("127.0.0.3", "127.0.0.4"):
                cluster.add(ip, num_cpus=2)
            done = ended(driver)
        finally:
            driver.kill()
        assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "Waiting for at most 600 s: a trial needs 1 CPU for each of 2 processes" in done.stdout
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
