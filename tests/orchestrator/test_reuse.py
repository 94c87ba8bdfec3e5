"""What another sweep folder has finished is taken over, checked, and that folder is left as it is."""

import shutil
from dataclasses import replace

import pytest

from orchestrator.only import parse_only
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.reuse import foresee, opened_sources, reuse_finished
from results.layout import SWEEP_LOCK
from results.store import open_store
from search_spaces.problems import InputError

pytestmark = pytest.mark.heavy


def _files(folder):
    """Path -> (bytes, time of change)."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, make_sweep_in):
    """A finished sweep of cosine and qnorm."""
    sweep = make_sweep_in(tmp_path_factory.mktemp("finished"), training={"steps": 2})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return sweep


@pytest.fixture
def larger(make_sweep):
    """The same sweep with one more similarity and one more data set."""
    return make_sweep(
        "larger",
        training={"steps": 2},
        axes={"similarity": ["cosine", "qnorm", "dnorm"]},
        evaluation={"groups": {"in_domain": "zoo", "other": "zoo/train"}},
    )


def _reuse(sweep, source, only=None):
    """Take over what `source` has; (what was taken, the plan after it), which is what the plan before it foresaw."""
    store = open_store(str(sweep.folder))
    resolved = resolve(sweep.file)
    resolved = replace(resolved, sweep=resolved.sweep.model_copy(update={"reuse": (str(source),)}))
    part = parse_only(only, resolved.expansion)
    foreseen, _ = foresee(resolved, store, part)
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    try:
        sources = opened_sources([str(source)], "sweep.yaml")
        [reused] = reuse_finished(make_plan(resolved, store, part), store, sources, lock)
    finally:
        lock.release()
    plan = make_plan(resolved, store, part)
    if not reused.notices:
        assert [trial.state for trial in foreseen.trials] == [trial.state for trial in plan.trials]
        assert [probe.finished for probe in foreseen.probes] == [probe.finished for probe in plan.probes]
        assert set(foreseen.taken) == set(reused.keys)
    return reused, plan


def test_only_what_no_folder_has_is_left(finished, larger):
    before = _files(finished.folder)
    reused, plan = _reuse(larger, finished.folder)
    assert _files(finished.folder) == before
    assert str(reused) == f"taken over from {finished.folder}: 3 trials, 1 probe, 7 evaluations"
    assert reused.notices == ()
    states = {trial.spec.title: trial.state for trial in plan.trials}
    assert states.pop("minilm-1l/finetune/dnorm/s0") == "left"
    assert set(states.values()) == {"to evaluate"}  # on the data set that is new
    assert [probe.finished for probe in plan.probes] == [True]

    taken = _files(larger.folder)
    for path, (content, _) in before.items():
        if path.endswith((".parquet", ".safetensors")) and path in taken:
            assert taken[path][0] == content
    again, _ = _reuse(larger, finished.folder)
    assert str(again).endswith(": nothing")

    done = larger.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken over" not in done.stdout
    for path, (content, _) in _files(finished.folder).items():
        if path.endswith("/model.safetensors"):
            assert (larger.folder / path).read_bytes() == content
            assert (larger.folder / path).stat().st_mtime < done_before(larger)


def done_before(sweep):
    """When the sweep's run began."""
    return min(path.stat().st_mtime for path in sweep.folder.glob("logs/*.log"))


def test_of_a_part_only_that_part_is_taken_over(finished, larger):
    reused, plan = _reuse(larger, finished.folder, "similarity=qnorm")
    assert (reused.num_trials, reused.num_probes) == (2, 1)
    assert [trial.state for trial in plan.trials if trial.spec.title.endswith("cosine/s0")] == ["left"]
    assert len(list(larger.folder.glob("trials/*/trial.parquet"))) == 2


def test_a_checkpoint_that_changed_is_not_taken_over(finished, larger, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(finished.folder, damaged)
    weights = sorted(damaged.glob("trials/*/checkpoint/model.safetensors"))[0]
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    reused, plan = _reuse(larger, damaged)
    assert reused.num_trials == 2
    [notice] = reused.notices
    assert "is not taken over: its checkpoint's hash is " in notice
    untouched = [trial for trial in plan.trials if trial.trial_id == weights.parts[-3]]
    assert [trial.state for trial in untouched] == ["left"]
    assert not (larger.folder / "trials" / weights.parts[-3] / "checkpoint").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no sweep folder"):
        opened_sources([str(tmp_path / "absent")], "sweep.yaml")


def test_a_file_that_reuses_trains_only_what_is_new(finished, make_sweep):
    sweep = make_sweep(
        "reusing",
        reuse=[str(finished.folder)],
        training={"steps": 2},
        axes={"similarity": ["cosine", "qnorm", "half"]},
        budget={"trials": 2},
    )
    done = sweep.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"taken over from {finished.folder}: 3 trials, 1 probe, 7 evaluations" in done.stdout
    assert "Stopped: the budget of 2 trained trials is spent (budget.trials), 1 left. To go on:" in done.stdout

    sweep.file.write_text(sweep.file.read_text().replace("trials: 2", "trials: 3"))
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if line.endswith(": training")] == [
        "minilm-1l/finetune/half/s0"
    ]
    reused = [status for status in sweep.statuses().values() if status["reason"]]
    assert [status["reason"] for status in reused] == [f"taken over from {finished.folder}"] * 3
