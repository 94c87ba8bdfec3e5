"""Sweeps as jobs of real Ray clusters of several nodes: submitted over HTTP, followed, stopped, and lost on the way.

Some take more than a minute, and none is heavy: that sweeps go on whatever is lost is to be seen each time.
"""

import json
import shlex
import signal
import subprocess

import pytest
from nodes import jobs_cluster
from outcomes import assert_same_outcome, table_of
from runners import runners, runs_on
from small_sweeps import Sweep

from orchestrator.kept_logs import last_kept_in
from results.layout import SWEEP_LOCK
from results.locks import is_held
from results.store import open_store
from tests.benchmarks.tiny_sweep import write_tiny_sweep

pytest.importorskip("aiohttp_cors", reason="a head takes jobs with ray[default] alone (pip install 'ray[default]')")

TOKEN = "a-token-of-the-tests"
HERE = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
DEADLINE_S = 600
LONG = {
    "training": {"steps": 2000, "global_batch": 8, "learning_rate": 1e-4},
    "checkpoints": {"every_steps": 50},
}


def _sweep(home, num_seeds=2, **blocks):
    """One that a job can run: all its paths are absolute, and its name and folders are such as people have."""
    written = write_tiny_sweep(home / "it's mine", num_seeds=num_seeds, **blocks)
    text = written.read_text().replace("path:bert", f"path:{written.parent}/bert")
    file = written.with_name("my sweep.yaml")
    file.write_text(text.replace("path:data", f"path:{written.parent}/data"))
    return Sweep(file=file, folder=written.parent / "sweep")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a long sweep comes to where nothing happens."""
    sweep = _sweep(tmp_path_factory.mktemp("undisturbed"), **LONG)
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return sweep


@pytest.fixture(scope="module")
def cluster():
    """A head and two nodes; the last test loses the head."""
    with jobs_cluster(TOKEN) as cluster:
        for ip in ("127.0.0.3", "127.0.0.4"):
            cluster.add(ip, num_cpus=1)
        yield cluster


def _here(sweep, cluster, *arguments, **variables):
    return sweep.here(*arguments, "--address", cluster.url, **{**HERE, **variables})


def _watch(sweep, cluster, *arguments):
    return sweep.start(*arguments, "--address", cluster.url, **HERE)


def _end(process):
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.slow
def test_a_job_is_followed_to_its_tables_and_no_id_is_given_twice(cluster, tmp_path):
    sweep = _sweep(tmp_path)
    watched = _end(_watch(sweep, cluster, "submit", sweep.file.name, "--watch"))
    assert watched.returncode == 0, watched.stdout + watched.stderr
    assert f"Job tiny is submitted to {cluster.url}" in watched.stdout
    assert "have to be the same folders on every node" in watched.stdout
    assert "Job tiny finished" in watched.stdout.splitlines()[-1]
    rows = table_of(sweep)
    assert rows
    assert "finetune" in watched.stdout, "no table was streamed"

    printed = _here(sweep, cluster, "jobs", "logs", "tiny").stdout.splitlines()
    streamed = watched.stdout.splitlines()
    assert streamed[-len(printed) - 1 : -1] == printed
    kept = last_kept_in(str(sweep.folder))
    assert printed[-len(kept) :] == kept
    [job] = [job for job in _listed(sweep, cluster) if job["job"] == "tiny"]
    assert (job["status"], job["exit_code"], job["storage"]) == ("SUCCEEDED", 0, str(sweep.folder))
    told = _here(sweep, cluster, "jobs", "status", "tiny")
    assert "job tiny: finished, started " in told.stdout
    assert "tiny/finetune/cosine/s0" in told.stdout

    refused = _here(sweep, cluster, "submit", sweep.file.name, "--id", "tiny")
    assert (refused.returncode, refused.stdout) == (2, "")
    look = f"densesweep jobs status tiny --address {cluster.url}"
    twice = "there is a job 'tiny' already, and Ray gives no id twice"
    assert refused.stderr == f"error: --id: {twice} (give another; what it is: {look})\n"
    missing = _here(sweep, cluster, "jobs", "logs", "tinyy")
    assert missing.returncode == 2
    assert f"error: JOB: 'tinyy' is not a job (did you mean 'tiny'?) at {cluster.url}" in missing.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"RAY_AUTH_MODE": "disabled"},
            "asks for a token, and there is none here (RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token)",
        ),
        ({"RAY_AUTH_TOKEN": "another"}, "refuses the token"),
    ],
)
def test_who_has_not_the_token_is_told_so(cluster, tmp_path, variables, told):
    sweep = _sweep(tmp_path)
    for arguments in (("submit", sweep.file.name), ("jobs", "list"), ("jobs", "logs", "tiny", "--follow")):
        refused = _here(sweep, cluster, *arguments, **variables)
        assert refused.returncode == 2, refused.stdout
        [line] = refused.stderr.splitlines()
        assert line.startswith(f"error: --address: the cluster at {cluster.url} {told}")


@pytest.mark.heavy
def test_a_stopped_job_ends_its_steps_and_the_next_goes_on(cluster, undisturbed, tmp_path):
    sweep = _sweep(tmp_path, **LONG)
    sent = _here(sweep, cluster, "submit", sweep.file.name, "--id", "stopped.1")
    assert sent.returncode == 0, sent.stdout + sent.stderr
    twice = _here(sweep, cluster, "submit", sweep.file.name)
    assert twice.returncode == 2
    assert f"error: {sweep.folder}: job 'stopped.1' runs this sweep already (to follow it: " in twice.stderr
    watching = _watch(sweep, cluster, "jobs", "logs", "-f", "stopped.1")
    assert "Running entrypoint" in watching.stdout.readline() + watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    left = _end(watching)
    assert left.returncode == 130, left.stdout + left.stderr
    follow = f"densesweep jobs logs stopped.1 --address {cluster.url} --follow"
    assert f"No longer watched; the job goes on. To follow it: {follow}. To stop it: " in left.stdout

    sweep.wait_for(Sweep.training_checkpoints)
    stopped = _here(sweep, cluster, "jobs", "stop", "stopped.1")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "Job stopped.1 stopped. To go on where it stopped: submit the sweep file again" in stopped.stdout
    printed = _here(sweep, cluster, "jobs", "logs", "stopped.1").stdout
    assert "Stopped. To go on where it stopped: " in printed, "the driver was killed, not stopped"
    assert not is_held(open_store(str(sweep.folder)), SWEEP_LOCK)
    before = {title: status["state"] for title, status in sweep.statuses().items()}
    assert set(before.values()) != {"finished"}, "stopped too late to show anything"

    again = _end(_watch(sweep, cluster, "submit", sweep.file.name, "--watch"))
    assert again.returncode == 0, again.stdout + again.stderr
    assert_same_outcome(sweep, undisturbed)


@pytest.mark.heavy
def test_of_two_nodes_one_is_lost_and_the_job_goes_on_there(cluster, undisturbed, tmp_path):
    sweep = _sweep(tmp_path, **LONG)
    watching = _watch(sweep, cluster, "submit", sweep.file.name, "--watch")
    title, pid = next(iter(sweep.wait_for(runners).items()))
    [doomed] = [node for node in cluster.nodes if runs_on(node, pid)]
    doomed.kill()
    watched = _end(watching)
    cluster.add("127.0.0.5", num_cpus=1)
    assert watched.returncode == 0, watched.stdout + watched.stderr + sweep.logs()
    assert "will be tried again (worker died: " in watched.stdout
    assert sweep.statuses()[title]["attempt"] > 1
    assert_same_outcome(sweep, undisturbed)


@pytest.mark.heavy
def test_the_head_is_lost_and_another_cluster_goes_on(cluster, undisturbed, tmp_path):
    sweep = _sweep(tmp_path, **LONG)
    watching = _watch(sweep, cluster, "submit", sweep.file.name, "--watch")
    sweep.wait_for(lambda sweep: sweep.training_checkpoints() and list(sweep.folder.glob("logs/driver-*.log")))
    cluster.head.kill()
    watched = _end(watching)
    assert watched.returncode == 2, watched.stdout + watched.stderr
    [line] = watched.stderr.splitlines()
    assert line.startswith(f"error: --address: no Ray dashboard answers at {cluster.url} (has the head died, or ")
    look = line.partition("What job ")[2].partition("submit the sweep file to a new cluster; what it printed, too: ")[2]
    assert {status["state"] for status in sweep.statuses().values()} != {"finished"}
    kept = sweep.here(*shlex.split(look)[1:], **HERE)
    assert kept.returncode == 0, kept.stderr
    assert "Sweep 'tiny' in " in kept.stdout

    with jobs_cluster(TOKEN) as other:
        other.add("127.0.0.6", num_cpus=1)
        again = _end(_watch(sweep, other, "submit", sweep.file.name, "--watch"))
    assert again.returncode == 0, again.stdout + again.stderr + sweep.logs()
    assert_same_outcome(sweep, undisturbed)


def _listed(sweep, cluster):
    done = _here(sweep, cluster, "jobs", "list", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
