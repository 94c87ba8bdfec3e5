"""Real trials whose folder is in an object store or on a full disk: what they leave equals an undisturbed one."""

import secrets
from dataclasses import replace

import pytest
from small_disk import fill, relieve, small_disk
from tiny_trials import data_spec, trial_spec, write_collection

from results import layout
from results.room import Room
from results.rows import read_rows
from results.store import open_store
from results.waiting_store import WaitingStore
from search_spaces.identity import trial_id
from search_spaces.specs import EvaluationSpec, ValidationSpec
from trainers.threads import set_threads
from trainers.training.resume import CheckpointPolicy, steps_with_checkpoints
from trainers.trial import run_trial
from trainers.trial_hooks import Hooks

EACH_STEP = CheckpointPolicy(every_steps=1)
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial_storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        yield write_collection(folder / "collection")


@pytest.fixture
def trial(collection, tiny_bert, make_spec):
    """Four steps, validated after each second one."""
    validation = ValidationSpec(data=data_spec(collection, "test"), every_steps=2)
    made = trial_spec(data_spec(collection, "train"), make_spec(tiny_bert), steps=4, learning_rate=8e-3)
    return replace(made, validation=validation)


@pytest.fixture
def evaluation(collection):
    return EvaluationSpec(data=data_spec(collection, "test"))


def run(trial, evaluations, store, **hooks):
    return run_trial(
        trial,
        evaluations,
        store=store,
        hooks=Hooks(**hooks),
        checkpoint_policy=EACH_STEP,
        provenance_json='{"packages": {}}',
    )


def left_by(store, key):
    """Every file of the trial and its evaluations with what is in it that time and place do not change."""
    files = [name for name in store.list("trials") if name.endswith((".safetensors", "/densesweep.json"))]
    kept = {name: store.read(name) for name in files}
    rows = {name: read_rows(store, name, "per_query").to_pylist() for name in store.list("evaluations")}
    losses = [row["loss"] for row in read_rows(store, layout.history_rows(key), "history").to_pylist()]
    return kept, rows, losses


@pytest.fixture
def undisturbed(trial, evaluation, tmp_path):
    store = open_store(str(tmp_path / "undisturbed"))
    assert run(trial, [evaluation], store).state == "finished"
    return left_by(store, trial_id(trial))


def test_the_best_checkpoint_and_the_last_are_kept_and_nothing_else_of_a_training(trial, evaluation, tmp_path):
    store = open_store(str(tmp_path / "sweep"))
    key, kinds = trial_id(trial), set()
    folders = lambda: {name.split("/")[2] for name in store.list(f"trials/{key}") if name.count("/") > 2}  # noqa: E731
    run(trial, [evaluation], store, report=lambda _: kinds.update(folders()))
    assert kinds == {"steps", "best"}
    assert folders() == {"checkpoint", "last_checkpoint"}
    assert store.list("unfinished") == []


@pytest.mark.slow
def test_a_trial_in_an_object_store_killed_and_resumed_equals_one_on_a_disk(trial, evaluation, undisturbed, s3_bucket):
    uri = f"{s3_bucket}/{secrets.token_hex(6)}"
    key = trial_id(trial)

    def killed(report):
        if report.numbers.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(trial, [evaluation], open_store(uri), report=killed)
    assert steps_with_checkpoints(open_store(uri), key) == [3]
    seen = []
    status = run(trial, [evaluation], open_store(uri), report=lambda report: seen.append(report.numbers.step))
    assert (status.state, status.attempt, seen) == ("finished", 2, [4])
    store = open_store(uri)
    assert left_by(store, key) == undisturbed
    assert store.leftovers() == ()
    assert steps_with_checkpoints(store, key) == []


def test_a_trial_on_a_full_disk_waits_and_equals_an_undisturbed_one(trial, evaluation, undisturbed, tmp_path):
    with small_disk(tmp_path / "disk", 40 * MIB) as disk:
        said = []

        def say(text):
            said.append(text)
            if text.startswith("waiting"):
                relieve(disk)

        def take_all(report):
            if report.numbers.step == 2:
                fill(disk)

        store = WaitingStore(open_store(str(disk / "sweep")), Room(wait_s=600.0), say)
        status = run(trial, [evaluation], store, report=take_all)
        assert (status.state, status.attempt) == ("finished", 1), status.error
        assert said[0].startswith("waiting for space: ")
        assert "No space left on device" in said[0]
        assert said[-1] == "going on: there is space again"
        assert left_by(store, trial_id(trial)) == undisturbed
        assert store.leftovers() == ()


@pytest.mark.slow
def test_a_full_disk_elsewhere_is_waited_for_too(trial, evaluation, undisturbed, tmp_path):
    """Such as that of temporary files: the trial goes on from its last checkpoint when there is space."""
    with small_disk(tmp_path / "disk", MIB) as disk:
        store = open_store(str(tmp_path / "sweep"))
        waited = []

        def wait(error):
            waited.append(error)
            relieve(disk)

        def write_elsewhere(report):
            if report.numbers.step == 3:
                if not waited:
                    fill(disk)
                (disk / "temporary").write_bytes(b"1" * 200_000)

        status = run(trial, [evaluation], store, report=write_elsewhere, wait_for_space=wait)
        assert (status.state, status.attempt, len(waited)) == ("finished", 1, 1), status.error
        assert left_by(store, trial_id(trial)) == undisturbed


def test_a_trial_that_may_not_wait_fails_with_the_reason_and_goes_on_later(trial, evaluation, undisturbed, tmp_path):
    inner = open_store(str(tmp_path / "sweep"))
    store = WaitingStore(inner, Room(quota_bytes=1000, wait_s=0.0), lambda _: None)
    status = run(trial, [evaluation], store, wait_for_space=store.waiting.wait)
    assert status.state == "failed"
    assert status.reason.startswith("no space and none is waited for (checkpoints take 0 B, ")
    assert run(trial, [evaluation], inner).state == "finished"
    assert left_by(inner, trial_id(trial)) == undisturbed
