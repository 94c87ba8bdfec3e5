"""What `densesweep doctor` says of run files that are cut off, altered, or of another evaluation."""

import gzip

import pytest
from rich.console import Console

from orchestrator.doctor import examine
from orchestrator.doctor_command import DoctorRequest, run_doctor
from orchestrator.doctor_runs import run_findings
from orchestrator.doctor_trials import trained_trials
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results import layout
from results.store import open_store
from search_spaces.specs import to_json
from trainers.training.resume import CheckpointPolicy
from trainers.trial import Hooks, run_planned_trial


@pytest.fixture(scope="module")
def swept(tmp_path_factory, make_sweep_in):
    """A sweep of one untrained checkpoint that keeps its runs under every similarity, run without Ray."""
    sweep = make_sweep_in(
        tmp_path_factory.mktemp("runs"),
        axes={"similarity": ["dot"]},
        training={"steps": 1},
        evaluation={"groups": {"in_domain": ["zoo"]}, "run_files": True},
    )
    store = open_store(str(sweep.folder))
    plan = make_plan(resolve(sweep.file), store)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(plan)))
    for trial in plan.trials:
        prefix = layout.trial_prefix(trial.trial_id)
        store.write(layout.spec_key(prefix), to_json(trial.spec).encode())
        evaluations = layout.evaluations_to_bytes([grouped.spec for grouped in plan.evaluations])
        store.write(layout.evaluations_key(trial.trial_id), evaluations)
        run_again(store, trial.trial_id)
    return store, sweep_record(plan)


def run_again(store, trial_id):
    policy = CheckpointPolicy()
    status = run_planned_trial(trial_id, store=store, hooks=Hooks(), checkpoint_policy=policy, provenance_json="{}")
    assert status.state == "finished", status.error


def runs_of(store):
    return [key for key in store.list("evaluations") if key.endswith("run.trec.gz")]


def edited(edit):
    """What does `edit` to the lines of a packed run."""

    def altered(packed):
        lines = edit(gzip.decompress(packed).decode().splitlines())
        return gzip.compress("".join(f"{line}\n" for line in lines).encode())

    return altered


def without_first_query(lines):
    first = lines[0].split()[0]
    return [line for line in lines if line.split()[0] != first]


def with_document(name):
    return lambda lines: [lines[0].replace(lines[0].split()[2], name), *lines[1:]]


def with_byte_changed(packed):
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]


DAMAGES = {
    "cut off": (lambda packed: packed[: len(packed) // 2], "damaged: "),
    "one byte": (with_byte_changed, "damaged: "),
    "not packed": (gzip.decompress, "damaged: "),
    "empty file": (lambda packed: b"", "that found something are not in it"),
    "a column less": (edited(lambda lines: [lines[0].rpartition(" ")[0], *lines[1:]]), "damaged: "),
    "a rank that is none": (edited(lambda lines: [lines[0].replace(" 1 ", " one "), *lines[1:]]), "damaged: "),
    "no query": (edited(lambda lines: []), "12 queries that found something are not in it, such as 'q"),
    "a query less": (edited(without_first_query), "1 queries that found something are not in it, such as 'q"),
    "a line less": (edited(lambda lines: lines[:3] + lines[4:]), "are missing: rank 5 is out of place"),
    "its first line less": (edited(lambda lines: lines[1:]), "are missing: rank 2 is out of place"),
    "two lines exchanged": (edited(lambda lines: [lines[1], lines[0], *lines[2:]]), "rank 2 is out of place"),
    "a strange document": (edited(with_document("d999")), "document 'd999' was never encoded for it"),
    "a query twice": (edited(lambda lines: [*lines, lines[0]]), "stands in two places"),
    "other scores": (
        edited(lambda lines: [*lines[:1], lines[1].replace(lines[1].split()[4], "1e9"), *lines[2:]]),
        "do not fall: its ranking was changed",
    ),
}


def faults_of(store):
    keys = store.list("")
    return {finding.where: finding.what for finding in run_findings(store, keys, trained_trials(store, keys))}


def left_of(swept):
    """What is to be done about trials; the probe was never run."""
    store, record = swept
    found = examine(store, record, lock="free", hashes=False)
    return [(f.severity, f.what) for f in found if f.is_fault and not f.where.startswith("probes/")]


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_told_and_no_other_run(swept, name):
    store, _ = swept
    damage, told = DAMAGES[name]
    assert faults_of(store) == {}
    key = runs_of(store)[0]
    sound = store.read(key)
    store.write(key, damage(sound))
    found = faults_of(store)
    store.write(key, sound)
    assert list(found) == [key]
    assert told in found[key]
    assert "\n" not in found[key]


def test_the_run_of_another_evaluation_is_told(swept):
    store, _ = swept
    one, other = runs_of(store)[:2]
    sound = store.read(one)
    store.write(one, store.read(other))
    found = faults_of(store)
    store.write(one, sound)
    assert found == {one: f"it is the run of '{other.split('/')[1]}', not of this evaluation"}


@pytest.mark.parametrize("block_bytes", [64, 1000])
def test_rankings_go_on_from_block_to_block(swept, monkeypatch, block_bytes):
    monkeypatch.setattr("orchestrator.doctor_runs._BLOCK_BYTES", block_bytes)
    store, _ = swept
    assert faults_of(store) == {}
    key = runs_of(store)[0]
    sound = store.read(key)
    for name in ("a line less", "a query twice", "other scores", "a query less"):
        damage, told = DAMAGES[name]
        store.write(key, damage(sound))
        found = faults_of(store)
        store.write(key, sound)
        assert told in found[key]


def test_a_broken_run_is_deleted_told_as_missing_and_made_again_as_it_was(swept):
    store, record = swept
    key = runs_of(store)[0]
    sound = store.read(key)
    others = {run: store.read(run) for run in runs_of(store) if run != key}
    store.write(key, sound[:-20])
    [broken] = [f for f in examine(store, record, lock="free", hashes=False) if f.severity == "broken"]
    assert (broken.where, broken.is_fault) == (key, True)
    request = DoctorRequest(repair=True, hashes=False, as_json=False, drop_continuations=False)
    with Console(quiet=True) as console:
        run_doctor(store, record, request, console)
    assert not store.exists(key)
    assert [(severity, "it lacks 1 of its files" in what) for severity, what in left_of(swept)] == [("missing", True)]
    for trial in record.trials:
        run_again(store, trial.trial_id)
    assert store.read(key) == sound
    assert {run: store.read(run) for run in others} == others
    assert left_of(swept) == []
