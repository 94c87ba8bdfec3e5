"""Sweeps from `k8s submit` to their tables, on Ray clusters that a played operator starts for their RayJobs."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from cluster_users import ROOT, User, sweep_content
from test_on_an_api_server import Cluster, read_until, succeeded

DEADLINE_S = 900.0


@pytest.fixture
def cluster(server, namespace):
    return Cluster(server, namespace)


def wait_for(seen, what, deadline_s=DEADLINE_S):
    until = time.monotonic() + deadline_s
    while not (found := seen()):
        assert time.monotonic() < until, f"not seen: {what}"
        time.sleep(0.1)
    return found


def rest_of(process):
    """What it prints yet, to its end. `communicate` would lose what was read ahead with a line before."""
    ending = threading.Timer(DEADLINE_S, process.kill)
    ending.start()
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    ending.cancel()
    process.wait()
    return "".join(lines)


def tables_of(folder, where, name="gains"):
    command = [sys.executable, "-m", "orchestrator.cli", "tables", str(folder), name, "--format", "csv"]
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    return succeeded(done)


@pytest.mark.heavy
def test_an_image_that_is_not_there_is_told_while_one_watches(user: User, cluster, kubelet, operator, write_sweep):
    file = write_sweep(cluster={"image": "registry.example/nowhere:1"})
    kubelet.missing_images.add("registry.example/nowhere:1")
    watcher = user.start("k8s", "submit", str(file), "--watch")
    line = read_until(watcher, "trouble: ")
    assert "ImagePullBackOff" in line
    assert "registry.example/nowhere:1" in line
    succeeded(user.run("k8s", "cancel", "tiny", "--delete"))
    out, err = watcher.communicate(timeout=120)
    assert watcher.returncode == 1, out + err
    assert "RayJob tiny is gone" in out


@pytest.mark.heavy
def test_a_storage_that_is_not_to_be_written_is_told_by_the_preflight(user: User, operator, write_sweep, tmp_path):
    (tmp_path / "mnt").write_text("a file, where a claim should be")
    watcher = user.start("k8s", "submit", str(write_sweep()), "--watch")
    line = read_until(watcher, "trouble: ")
    assert "-head-0: Error (exit code 2" in line
    assert "cannot be written" in line or "no folder" in line or str(tmp_path / "mnt") in line
    succeeded(user.run("k8s", "cancel", "tiny", "--delete"))
    watcher.communicate(timeout=120)


@pytest.mark.heavy
def test_a_sweep_runs_from_submit_to_its_gain_table(user: User, cluster, operator, write_sweep, tmp_path):
    file = write_sweep()
    watcher = user.start("k8s", "submit", str(file), "--watch", stderr=subprocess.STDOUT)
    read_until(watcher, "RayJob tiny: Running")
    told = succeeded(user.run("k8s", "status", str(file)))
    assert "2 of 2 workers ready" in told
    assert told.count("Running") >= 4  # the RayJob, the head, two workers
    out = rest_of(watcher)
    assert watcher.returncode == 0, out
    assert "RayJob tiny ended: Complete, Ray's job SUCCEEDED" in out
    assert "gain" in out
    assert "qnorm" in out
    gains = tables_of(tmp_path / "mnt" / "tiny", tmp_path)
    assert "qnorm" in gains

    wait_for(lambda: operator.try_of("tiny") is None, "the cluster's end")
    told = succeeded(user.run("k8s", "status", str(file)))
    assert "Complete" in told
    assert "4 finished" in told  # two trained, one untrained, and their probe
    for pod in cluster.server.request("GET", f"/api/v1/namespaces/{user.namespace}/pods")["items"]:
        name = pod["metadata"]["name"]
        cluster.server.request("DELETE", f"/api/v1/namespaces/{user.namespace}/pods/{name}", {"gracePeriodSeconds": 0})
    kept = succeeded(user.run("k8s", "logs", "tiny"))
    assert set(kept.splitlines()) <= set(out.splitlines())
    assert "qnorm" in kept

    # What is finished is not run again.
    assert "Nothing is left to run" in succeeded(user.run("k8s", "resubmit", "tiny", "--watch"))


@pytest.mark.heavy
def test_a_cancelled_sweep_and_a_lost_head_change_no_number(
    user: User, cluster, kubelet, operator, namespace, tmp_path
):
    training = {"steps": 120, "global_batch": 8, "learning_rate": 1e-4}
    blocks = {"training": training, "checkpoints": {"every_steps": 10}, "probe": None}
    content = sweep_content("tiny", namespace, tmp_path / "mnt", **blocks)
    del content["probe"]
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(content))
    undisturbed = [
        sys.executable,
        "-m",
        "orchestrator.cli",
        "run",
        str(file),
        "--storage",
        str(tmp_path / "undisturbed"),
    ]
    done = subprocess.run(
        undisturbed, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "mnt" / "tiny"

    def num_checkpoints():
        return len([p for p in folder.glob("trials/*/steps/*/*.json") if ".partial" not in str(p)])

    succeeded(user.run("k8s", "submit", str(file)))
    wait_for(num_checkpoints, "a training checkpoint")
    succeeded(user.run("k8s", "cancel", "tiny"))
    wait_for(lambda: cluster.job()["status"].get("jobDeploymentStatus") == "Suspended", "its suspension")
    assert operator.try_of("tiny") is None
    assert "is suspended" in user.run("k8s", "submit", str(file)).stderr

    watcher = user.start("k8s", "resubmit", "tiny", "--watch", stderr=subprocess.STDOUT)
    attempt = wait_for(lambda: operator.try_of("tiny"), "the next try")
    wait_for(lambda: attempt.submitter, "its submission")
    read_until(watcher, "step ")
    kubelet.kill(attempt.head)
    out = rest_of(watcher)
    assert watcher.returncode == 0, out
    assert cluster.job()["status"]["failed"] == 1
    assert "Retrying" in out
    assert tables_of(folder, tmp_path) == tables_of(tmp_path / "undisturbed", tmp_path)


@pytest.mark.heavy
def test_the_demo_runs_from_submit_to_its_gain_table(user: User, cluster, operator, namespace, tmp_path):
    profile = Path(tmp_path / "here.yaml")
    profile.write_text(yaml.safe_dump(sweep_content("demo", namespace, tmp_path / "mnt")["cluster"]))
    demo = str(ROOT / "search_spaces/demo.yaml")
    watcher = user.start("k8s", "submit", demo, "--profile", str(profile), "--watch", stderr=subprocess.STDOUT)
    out = rest_of(watcher)
    assert watcher.returncode == 0, out
    assert "RayJob demo ended: Complete, Ray's job SUCCEEDED" in out
    gains = tables_of(tmp_path / "mnt" / "demo", tmp_path)
    for similarity in ("dot", "qnorm", "dnorm", "learnable"):
        assert similarity in gains
        assert similarity in out
