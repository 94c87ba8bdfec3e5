"""Trials that differ in their steps alone, under a constant schedule: who waits for whom, and which ends stay."""

import pytest

from orchestrator.continuations import end_findings, ends, remove_needless_ends, steps_made, waits_for
from orchestrator.costs import costs
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results.layout import (
    CONTINUATIONS,
    SWEEP_RECORD,
    Status,
    SweepRecord,
    end_prefix,
    from_bytes,
    history_rows,
    spec_key,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import prefix_id
from search_spaces.specs import TrialSpec, from_json, to_json


def _sweep(make_sweep, *steps, **blocks):
    axes = {"similarity": "cosine", "seed": [0, 1], "hyperparameters": {"steps": list(steps)}}
    training = {"steps": None, "global_batch": 8, "learning_rate": 1e-4, "schedule": "constant"}
    return make_sweep(axes=axes, training=training, **blocks)


@pytest.fixture
def planned(make_sweep):
    """A plan of trainings of 4, 8 and 2 steps under two seeds, and its folder, where none is trained yet."""
    sweep = _sweep(make_sweep, 4, 8, 2)
    plan, store = make_plan(resolve(sweep.file), None), open_store(str(sweep.folder))
    for trial in plan.trials:
        store.write(spec_key(trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
    return plan, store


def _trained(plan):
    return [trial for trial in plan.trials if trial.spec.kind == "train"]


def _leave_ends(plan, store, *steps):
    """As trainings of so many steps do that are whole."""
    for trial in _trained(plan):
        if trial.spec.training.steps in steps:
            store.write(f"{end_prefix(prefix_id(trial.spec), trial.spec.training.steps)}/model.safetensors", b"12345")
            store.write(trial_rows(trial.trial_id), b"rows")


def _steps_left(store):
    return [end.step for end in ends(store.list(CONTINUATIONS))]


def _findings(plan, store, *, running=False, drop=False):
    return list(end_findings(store, store.list(""), sweep_record(plan), running=running, drop=drop))


def test_each_waits_for_the_next_shorter_of_its_seed(planned):
    plan, _ = planned
    specs = {trial.trial_id: trial.spec for trial in plan.trials}
    pairs = {(specs[key], specs[first]) for key, first in waits_for(specs.values()).items()}
    steps = sorted((one.seed, one.training.steps, first.seed, first.training.steps) for one, first in pairs)
    assert steps == [(0, 4, 0, 2), (0, 8, 0, 4), (1, 4, 1, 2), (1, 8, 1, 4)]


def test_under_another_schedule_none_waits(make_sweep):
    training = {"steps": None, "schedule": "linear"}
    sweep = make_sweep(axes={"hyperparameters": {"steps": [2, 4]}}, training=training)
    assert waits_for(trial.spec for trial in make_plan(resolve(sweep.file), None).trials) == {}


def test_while_one_is_to_be_trained_all_stay(planned):
    plan, store = planned
    _leave_ends(plan, store, 2, 4)
    remove_needless_ends(store, sweep_record(plan))
    assert _steps_left(store) == [2, 4] * 2
    assert _findings(plan, store, drop=True) == []


def test_when_all_are_trained_the_longest_stays(planned):
    plan, store = planned
    _leave_ends(plan, store, 2, 4, 8)
    assert [finding.severity for finding in _findings(plan, store)] == ["leftover", "leftover", "note"] * 2
    assert _findings(plan, store, running=True) == []
    remove_needless_ends(store, sweep_record(plan))
    assert _steps_left(store) == [8] * 2


def test_the_longest_is_dropped_where_that_is_asked_for(planned):
    plan, store = planned
    _leave_ends(plan, store, 2, 4, 8)
    remove_needless_ends(store, sweep_record(plan))
    [note, _] = _findings(plan, store)
    assert not note.is_fault
    assert note.num_bytes == 5
    for finding in _findings(plan, store, drop=True):
        finding.cure()
    assert store.list(CONTINUATIONS) == []


def test_damaged_records_keep_nobody_from_looking(planned):
    plan, store = planned
    _leave_ends(plan, store, 2, 4, 8)
    for trial in plan.trials:
        store.write(spec_key(trial_prefix(trial.trial_id)), b"{")
        store.write(status_key(trial_prefix(trial.trial_id)), b"{")
    assert [finding.severity for finding in _findings(plan, store)] == ["leftover", "leftover", "note"] * 2


def test_what_others_make_is_not_counted_twice(planned):
    plan, store = planned
    assert costs(plan, None).steps == 2 * 8
    _leave_ends(plan, store, 2)
    begun = [trial for trial in _trained(plan) if trial.spec.training.steps != 2]
    made = steps_made({trial.trial_id: trial.spec for trial in begun}, store)
    assert sorted((t.spec.training.steps, made[t.trial_id]) for t in begun) == [(4, 2), (4, 2), (8, 4), (8, 4)]


def _trainings(sweep):
    """(seed, steps) -> when it was begun, when it ended, and its history without its identity."""
    store, found = open_store(str(sweep.folder)), {}
    for trial in from_bytes(SweepRecord, store.read(SWEEP_RECORD)).trials:
        spec = from_json(TrialSpec, store.read(spec_key(trial_prefix(trial.trial_id))))
        if spec.kind == "train":
            status = from_bytes(Status, store.read(status_key(trial_prefix(trial.trial_id))))
            history = read_rows(store, history_rows(trial.trial_id), "history").drop_columns("trial_id").to_pylist()
            found[spec.seed, spec.training.steps] = status.started_at, status.finished_at, history
    return found


@pytest.mark.heavy
def test_a_sweep_over_steps_trains_each_step_once_and_goes_on_to_more(make_sweep):
    sweep = _sweep(make_sweep, 60, 30, resources={"cpus": 1, "at_once": 2})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    store = open_store(str(sweep.folder))
    assert _steps_left(store) == [60] * 2

    sweep.file.write_text(sweep.file.read_text().replace("- 60", "- 60\n    - 70"))
    more = sweep.run()
    assert more.returncode == 0, more.stdout + more.stderr + sweep.logs()
    assert _steps_left(store) == [70] * 2
    trainings = _trainings(sweep)
    assert {key: len(history) for key, (_, _, history) in trainings.items()} == {
        (seed, steps): steps for seed in (0, 1) for steps in (30, 60, 70)
    }
    for seed in (0, 1):
        for shorter, longer in ((30, 60), (60, 70)):
            (_, ended, first), (begun, _, history) = trainings[seed, shorter], trainings[seed, longer]
            assert begun >= ended
            assert history[:shorter] == first  # its times too: none of these steps was made again

    sound = sweep.command("doctor", str(sweep.folder))
    assert sound.returncode == 0, sound.stdout
    dropped = sweep.command("doctor", str(sweep.folder), "--drop-continuations", "--repair")
    assert dropped.returncode == 0, dropped.stdout
    assert store.list(CONTINUATIONS) == []
