"""`densesweep doctor` on a real sweep folder, damaged in every way, repaired, and run again to equal tables."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from outcomes import table_of

from orchestrator.tracking import place_of
from results.layout import Status, from_bytes
from results.locks import state_of
from results.store import open_store

pytestmark = pytest.mark.heavy

HOLDER = """
import sys
from results.store import open_store
lock = open_store(sys.argv[1]).lock("sweep", owner="holder", stale_after_s=60)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, make_sweep_in):
    """A finished sweep of three trials and a probe; tests leave it as sound as they found it."""
    made = make_sweep_in(tmp_path_factory.mktemp("doctor"))
    _run(made)
    return made


def _run(sweep) -> str:
    process = sweep.start("run", sweep.file.name)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, out + err + sweep.logs()
    return out


def _doctor(sweep, *options: str) -> tuple[int, list[dict]]:
    done = sweep.command("doctor", str(sweep.folder), "--json", *options)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """What trials, probes and evaluations lie in, and when it was written."""
    names = ("trials", "probes", "evaluations", "encodings")
    found = [path for name in names for path in (folder / name).rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


def _hold(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    return holder


def _trained(sweep) -> list[Path]:
    record = json.loads((sweep.folder / "sweep.json").read_text())
    return [sweep.folder / "trials" / t["trial_id"] for t in record["trials"] if "untrained" not in t["title"]]


def _runs_by_state(sweep) -> dict[str, list[str]]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=place_of(open_store(str(sweep.folder)), None).uri)
    found: dict[str, list[str]] = {}
    for run in client.search_runs([client.get_experiment_by_name("tiny").experiment_id]):
        found.setdefault(run.info.status, []).append(run.info.run_id)
    return found


def test_a_sound_folder_is_sound_and_stays_as_it_is(sweep):
    before = _files(sweep.folder)
    assert _doctor(sweep) == (0, [])
    done = sweep.command("doctor", sweep.file.name, "--repair")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sweep.folder} is sound." in done.stdout
    assert _files(sweep.folder) == before


def test_a_running_sweep_is_looked_at_and_not_repaired(sweep):
    (sweep.folder / "trials" / ".partial-under-way").write_text("x")
    holder = _hold(sweep.folder)
    try:
        assert _doctor(sweep) == (0, [])
        refused = sweep.command("doctor", str(sweep.folder), "--repair")
        assert refused.returncode == 2
        assert "--repair: this sweep is running (holder holds it), and is repaired when it is not" in refused.stderr
    finally:
        holder.kill()
        holder.wait()
    assert (sweep.folder / "trials" / ".partial-under-way").exists()
    code, found = _doctor(sweep, "--repair")
    assert code == 0
    assert {(f["severity"], f["where"], f["repaired"]) for f in found} == {
        ("stale", "lock 'sweep'", True),
        ("leftover", "trials/.partial-under-way", True),
    }
    assert state_of(open_store(str(sweep.folder)), "sweep") == "free"


def test_a_folder_damaged_in_every_way_is_repaired_and_run_again_to_equal_tables(sweep):
    table, sound = table_of(sweep), _files(sweep.folder)
    changed, stuck = _trained(sweep)
    weights = changed / "checkpoint" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    [untrained] = set((sweep.folder / "trials").iterdir()) - {changed, stuck}
    (untrained / "steps" / "00000004").mkdir(parents=True)
    (untrained / "steps" / "00000004" / "model.safetensors").write_bytes(b"1" * 5000)
    status = json.loads((untrained / "status.json").read_text())
    (untrained / "status.json").write_text(json.dumps({**status, "state": "running"}))
    history = pq.read_table(stuck / "history.parquet")
    pq.write_table(history.replace_schema_metadata({"densesweep.schema": "history/0"}), stuck / "history.parquet")
    (stuck / "evaluations.json").write_text("{")
    first, second = sorted((sweep.folder / "evaluations").glob("*/per_query.parquet"))[:2]
    first.write_bytes(first.read_bytes()[:-20])
    second.unlink()
    [probe] = (sweep.folder / "probes").glob("*/probes.parquet")
    probe.unlink()
    (sweep.folder / "unfinished" / "0123").mkdir(parents=True)
    (sweep.folder / "unfinished" / "0123" / "state.npz").write_bytes(b"1" * 100)
    (sweep.folder / "trials" / ".partial-cut-off").mkdir()
    (sweep.folder / "trials" / ".partial-cut-off" / "half").write_bytes(b"1" * 700)
    from mlflow import MlflowClient

    left_running = _runs_by_state(sweep)["FINISHED"][0]
    MlflowClient(tracking_uri=place_of(open_store(str(sweep.folder)), None).uri).update_run(left_running, "RUNNING")

    code, found = _doctor(sweep)
    assert code == 1
    by_where = {finding["where"]: finding for finding in found}
    relative = {path: str(path.relative_to(sweep.folder)) for path in (first, changed, stuck, untrained, probe.parent)}
    expected = {
        f"{relative[changed]}/checkpoint": "broken",
        f"{relative[stuck]}/history.parquet": "broken",
        f"{relative[stuck]}/evaluations.json": "broken",
        relative[first]: "broken",
        relative[probe.parent]: "stale",
        f"{relative[untrained]}/steps": "leftover",
        "unfinished/0123": "leftover",
        "trials/.partial-cut-off": "leftover",
        f"MLflow run {left_running}": "stale",
    }
    assert {where: by_where[where]["severity"] for where in expected} == expected
    assert "its hash is" in by_where[f"{relative[changed]}/checkpoint"]["what"]
    assert "rows of 'history/0' where" in by_where[f"{relative[stuck]}/history.parquet"]["what"]
    assert by_where[f"{relative[untrained]}/steps"]["num_bytes"] == 5000
    assert by_where["trials/.partial-cut-off"]["num_bytes"] == 700
    assert not any(finding["repaired"] for finding in found)

    shown = sweep.command("doctor", str(sweep.folder), "--no-hashes")
    assert shown.returncode == 1
    assert "To repair (frees " in shown.stdout
    assert "its hash is" not in shown.stdout

    code, repaired = _doctor(sweep, "--repair")
    assert {finding["where"] for finding in repaired if finding["repaired"]} >= set(expected)
    assert code == 1, "what is missing is to be run"
    assert {finding["severity"] for finding in repaired if not finding["repaired"]} == {"missing"}
    assert "RUNNING" not in _runs_by_state(sweep)

    out = _run(sweep)
    assert "Nothing is left to run" not in out
    assert table_of(sweep) == table
    assert _doctor(sweep) == (0, [])
    assert {from_bytes(Status, p.read_bytes()).state for p in sweep.folder.glob("*/*/status.json")} == {"finished"}
    assert set(_files(sweep.folder)) == set(sound)
    untouched = [path for path in sound if not path.startswith((str(changed), str(stuck))) and "/trials/" in path]
    assert untouched
    assert all(
        _files(sweep.folder)[path] == sound[path] for path in untouched if path.endswith((".parquet", "tensors"))
    )
