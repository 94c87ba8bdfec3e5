"""`densesweep doctor` on a real sweep folder, damaged in every way, repaired, and run again to equal tables."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

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


@dataclass(frozen=True, kw_only=True)
class Damage:
    """What was done to a sound folder: `severities` by place as doctor names it, and the trials that lost something."""

    severities: dict[str, str]
    changed: Path
    stuck: Path
    untrained: Path


def _damage(sweep) -> Damage:
    """A fault of every kind: changed, cut off, of another version, missing, stale, left over, and in MLflow."""
    folder = sweep.folder
    changed, stuck = _trained(sweep)
    [untrained] = set((folder / "trials").iterdir()) - {changed, stuck}
    evaluation, probe = _damage_rows(folder, stuck)
    _flip_last_bit(changed / "checkpoint" / "model.safetensors")
    _leave_unfinished(folder, untrained)
    names = {path: str(path.relative_to(folder)) for path in (evaluation, changed, stuck, untrained, probe)}
    return Damage(
        changed=changed,
        stuck=stuck,
        untrained=untrained,
        severities={
            f"{names[changed]}/checkpoint": "broken",
            f"{names[stuck]}/history.parquet": "broken",
            f"{names[stuck]}/evaluations.json": "broken",
            names[evaluation]: "broken",
            names[probe]: "stale",
            f"{names[untrained]}/steps": "leftover",
            "unfinished/0123": "leftover",
            "trials/.partial-cut-off": "leftover",
            f"MLflow run {_leave_running(sweep)}": "stale",
        },
    )


def _flip_last_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def _damage_rows(folder: Path, trial: Path) -> tuple[Path, Path]:
    """Rows of another version, cut off, and gone; returns the rows that are cut off, and the probe without rows."""
    history = pq.read_table(trial / "history.parquet")
    pq.write_table(history.replace_schema_metadata({"densesweep.schema": "history/0"}), trial / "history.parquet")
    (trial / "evaluations.json").write_text("{")
    first, second = sorted((folder / "evaluations").glob("*/per_query.parquet"))[:2]
    first.write_bytes(first.read_bytes()[:-20])
    second.unlink()
    [probe] = (folder / "probes").glob("*/probes.parquet")
    probe.unlink()
    return first, probe.parent


def _leave_unfinished(folder: Path, trial: Path) -> None:
    """What killed processes leave: a trial that runs, its steps, a part of an evaluation, a part of a write."""
    status = json.loads((trial / "status.json").read_text())
    (trial / "status.json").write_text(json.dumps({**status, "state": "running"}))
    leftovers = {
        trial / "steps" / "00000004" / "model.safetensors": 5000,
        folder / "unfinished" / "0123" / "state.npz": 100,
        folder / "trials" / ".partial-cut-off" / "half": 700,
    }
    for file, num_bytes in leftovers.items():
        file.parent.mkdir(parents=True)
        file.write_bytes(b"1" * num_bytes)


def _leave_running(sweep) -> str:
    """A run that MLflow takes for running."""
    from mlflow import MlflowClient

    left = _runs_by_state(sweep)["FINISHED"][0]
    MlflowClient(tracking_uri=place_of(open_store(str(sweep.folder)), None).uri).update_run(left, "RUNNING")
    return left


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What was seen of a damaged folder: as doctor found it, repaired it, and as it is after another run."""

    damage: Damage
    table: str
    files: dict[str, tuple[int, int]]
    found: tuple[int, list[dict]]
    shown: CompletedProcess[str]
    repaired: tuple[int, list[dict]]
    runs_by_state: dict[str, list[str]]
    out_of_run: str


@pytest.fixture(scope="module")
def recovery(sweep):
    table, files = table_of(sweep), _files(sweep.folder)
    damage = _damage(sweep)
    return Recovery(
        damage=damage,
        table=table,
        files=files,
        found=_doctor(sweep),
        shown=sweep.command("doctor", str(sweep.folder), "--no-hashes"),
        repaired=_doctor(sweep, "--repair"),
        runs_by_state=_runs_by_state(sweep),
        out_of_run=_run(sweep),
    )


def test_every_damage_is_found_and_told_with_its_reason_and_size(sweep, recovery):
    code, found = recovery.found
    assert code == 1
    damage, by_where = recovery.damage, {finding["where"]: finding for finding in found}
    assert {where: by_where[where]["severity"] for where in damage.severities} == damage.severities
    changed, stuck, untrained = (
        str(path.relative_to(sweep.folder)) for path in (damage.changed, damage.stuck, damage.untrained)
    )
    assert "its hash is" in by_where[f"{changed}/checkpoint"]["what"]
    assert "rows of 'history/0' where" in by_where[f"{stuck}/history.parquet"]["what"]
    assert by_where[f"{untrained}/steps"]["num_bytes"] == 5000
    assert by_where["trials/.partial-cut-off"]["num_bytes"] == 700
    assert not any(finding["repaired"] for finding in found)


def test_without_hashes_a_changed_checkpoint_is_not_seen_and_the_rest_is(recovery):
    assert recovery.shown.returncode == 1
    assert "To repair (frees " in recovery.shown.stdout
    assert "its hash is" not in recovery.shown.stdout


def test_all_damage_is_repaired_but_what_is_missing_then(recovery):
    code, findings = recovery.repaired
    assert {finding["where"] for finding in findings if finding["repaired"]} >= set(recovery.damage.severities)
    assert code == 1, "what is missing is to be run"
    assert {finding["severity"] for finding in findings if not finding["repaired"]} == {"missing"}
    assert "RUNNING" not in recovery.runs_by_state


def test_the_next_run_makes_what_was_lost_and_gives_equal_tables(sweep, recovery):
    assert "Nothing is left to run" not in recovery.out_of_run
    assert table_of(sweep) == recovery.table
    assert _doctor(sweep) == (0, [])
    assert {from_bytes(Status, p.read_bytes()).state for p in sweep.folder.glob("*/*/status.json")} == {"finished"}
    assert set(_files(sweep.folder)) == set(recovery.files)


def test_what_was_not_damaged_is_not_made_again(sweep, recovery):
    damaged = (str(recovery.damage.changed), str(recovery.damage.stuck))
    untouched = [path for path in recovery.files if not path.startswith(damaged) and "/trials/" in path]
    assert untouched
    now = _files(sweep.folder)
    assert all(now[path] == recovery.files[path] for path in untouched if path.endswith((".parquet", "tensors")))
