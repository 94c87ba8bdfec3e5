"""Whole sweeps in buckets of two kinds of server: killed and resumed, they end as one on a local disk."""

import secrets
import signal
import subprocess

import pytest
from outcomes import checkpoints_in, checkpoints_of, table_of

from results.layout import Status, SweepRecord, from_bytes, status_key, trial_prefix
from results.store import open_store

pytestmark = pytest.mark.heavy

# One training, and one checkpoint to resume from in the middle of it: each is 140 MB, and the server is slow.
BLOCKS = {
    "axes": {"similarity": "cosine"},
    "training": {"steps": 40},
    "checkpoints": {"every_steps": 20, "every_s": 1e6},
}


@pytest.fixture
def uri(s3_bucket):
    return f"{s3_bucket}/{secrets.token_hex(6)}/sweep"


@pytest.fixture(params=["s3", "gs"])
def uri_of_each(request):
    bucket = request.getfixturevalue(f"{request.param}_bucket")
    return f"{bucket}/{secrets.token_hex(6)}/sweep"


def _run(sweep) -> subprocess.CompletedProcess:
    process = sweep.start("run", sweep.file.name)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _statuses(where: str) -> dict[str, Status]:
    store = open_store(where)
    record = from_bytes(SweepRecord, store.read("sweep.json"))
    keys = {t.title: status_key(trial_prefix(t.trial_id)) for t in record.trials}
    return {title: from_bytes(Status, store.read(key)) for title, key in keys.items() if store.exists(key)}


def _has_training_checkpoint(where: str) -> bool:
    return any("/steps/" in key for key in open_store(where).list("trials"))


def test_a_killed_driver_changes_no_number(make_sweep, uri_of_each):
    uri = uri_of_each
    local = make_sweep("local", **BLOCKS)
    assert _run(local).returncode == 0
    remote = make_sweep("remote", **BLOCKS, storage=uri)
    driver = remote.start("run", remote.file.name)
    remote.wait_for(lambda _: _has_training_checkpoint(uri), deadline_s=600)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(checkpoints_in(uri)) < 2, "killed too late to show anything"
    assert _has_training_checkpoint(uri)

    done = _run(remote)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(status.attempt for status in _statuses(uri).values()) > 1
    assert {status.state for status in _statuses(uri).values()} == {"finished"}
    assert not _has_training_checkpoint(uri)
    assert checkpoints_in(uri) == checkpoints_of(local)
    assert table_of(remote, where=uri) == table_of(local)


def test_a_stopped_sweep_on_s3_goes_on_and_leaves_nothing_on_this_machine(make_sweep, uri, tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    sweep = make_sweep(**BLOCKS, storage=uri)
    driver = sweep.start("run", sweep.file.name)
    sweep.wait_for(lambda _: _has_training_checkpoint(uri), deadline_s=600)
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 130, out + err
    assert "Stopped. To go on where it stopped:" in out

    done = _run(sweep)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"densesweep tables {uri}" in done.stdout
    again = _run(sweep)
    assert "Nothing is left to run: 2 trials and 1 probes" in again.stdout, again.stdout + again.stderr
    assert "3 finished" in sweep.command("status", uri).stdout
    assert sorted(path.name for path in sweep.file.parent.iterdir()) == ["data", "sweep.yaml"]

    store = open_store(uri)
    logs = store.list("logs")
    assert len(logs) == 2
    assert b"tune" in store.read(logs[-1]).lower(), "what libraries print"
    sweep_id = store.read("tracking/sweep_id").decode()
    assert (tmp_path / "cache" / "tracking" / sweep_id / "mlflow.db").exists()

    trial_id = next(key for key, title in _trials(uri).items() if "cosine" in title)
    follower = make_sweep(
        "follower",
        families=[{"name": "mine", "retriever": {"source": f"trial:{uri}/{trial_id}"}}],
        axes={"similarity": "cosine", "family": "mine"},
        training={"steps": 1},
    )
    planned = follower.command("validate", follower.file.name)
    assert planned.returncode == 0, planned.stderr
    assert len(list((tmp_path / "cache" / "checkpoints").iterdir())) == 1


def _trials(where: str) -> dict[str, str]:
    record = from_bytes(SweepRecord, open_store(where).read("sweep.json"))
    return {trial.trial_id: trial.title for trial in record.trials}
