"""A plan knows what a run takes over from other folders: it says so, counts it as done, and costs nothing for it."""

import json
from pathlib import Path

import pytest
from mirrored_sweeps import end_trial
from small_sweeps import Sweep

from orchestrator.costs import costs
from orchestrator.only import Only, parse_only
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.reuse import files_of, foresee
from results import layout
from results.store import Store, open_store
from results.studies import Sample, StudyRecord, write_study
from search_spaces.identity import trial_id
from search_spaces.scoring import trained_similarity
from search_spaces.specs import evaluation_for
from trainers.encoders.checkpoint_files import RECORD

COSINE, QNORM, UNTRAINED = (f"minilm-1l/finetune/{name}" for name in ("cosine/s0", "qnorm/s0", "untrained"))


@pytest.fixture
def other(tmp_path) -> Store:
    """Another sweep folder."""
    return sweep_folder(tmp_path / "other")


def sweep_folder(folder: Path) -> Store:
    made = open_store(str(folder))
    made.write(layout.SWEEP_RECORD, b"{}")  # what a sweep folder is known by; nothing here reads it
    return made


def finish(other: Store, sweep: Sweep, *titles: str, evaluated: bool = True) -> None:
    """Leave these trials of the sweep in the other folder, trained, and evaluated on all that the sweep asks for."""
    plan = make_plan(resolve(sweep.file), None)
    for trial in plan.trials:
        if trial.spec.title not in titles:
            continue
        end_trial(other, trial.spec)
        other.write(f"{layout.checkpoint_prefix(trial.trial_id)}/{RECORD}", b"{}")
        similarity = trained_similarity(trial.spec.similarity, None, None)
        for evaluation in plan.evaluations if evaluated else ():
            asked = evaluation_for(trial.spec.encoder, evaluation.spec)
            for key, _ in files_of(f"checkpoint-of-{trial.trial_id}", similarity, asked, other):
                other.write(key, b"rows")


def finish_probes(other: Store, sweep: Sweep) -> None:
    for probe in make_plan(resolve(sweep.file), None).probes:
        other.write(layout.probe_rows(probe.probe_id), b"rows")


def planned(sweep: Sweep) -> tuple[dict, str]:
    """The plan as JSON, and as text."""
    texts = []
    for more in (("--json",), ()):
        done = sweep.here("plan", sweep.file.name, *more)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    return json.loads(texts[0]), texts[1]


def test_what_another_folder_has_is_shown_with_it_and_costs_nothing(make_sweep, other):
    alone = make_sweep("alone")
    sweep = make_sweep(reuse=[other.uri])
    finish(other, sweep, COSINE)
    finish(other, sweep, UNTRAINED, evaluated=False)
    finish_probes(other, sweep)
    before = {key: other.read(key) for key in other.list("")}
    found, text = planned(sweep)
    states = {trial["title"]: (trial["state"], trial["take_over_from"]) for trial in found["trials"]}
    assert states == {
        COSINE: ("finished", other.uri),
        QNORM: ("left", None),
        UNTRAINED: ("to evaluate", other.uri),
    }
    assert [(probe["state"], probe["take_over_from"]) for probe in found["probes"]] == [("finished", other.uri)]
    assert (found["done"], found["to_take_over"], found["left"]) == (2, 2, 2)
    assert found["costs"]["steps"] == 6
    together = "".join(text.split())  # long paths are folded
    assert together.count(f"totakeoverfrom{other.uri}") == 3
    assert f"totakeoverfrom{other.uri},thentoevaluate" in together
    assert "2 done (2 of them to take over), 2 left" in text
    everything, _ = planned(alone)
    assert everything["costs"]["steps"] == 2 * 6
    assert found["costs"]["storage_bytes"] < everything["costs"]["storage_bytes"]
    assert not sweep.folder.exists()
    assert {key: other.read(key) for key in other.list("")} == before


def test_only_the_part_that_is_asked_for_is_taken(make_sweep, other):
    sweep = make_sweep(reuse=[other.uri])
    finish(other, sweep, COSINE, QNORM, UNTRAINED)
    resolved = resolve(sweep.file)
    part, _ = foresee(resolved, None, parse_only("similarity=qnorm", resolved.expansion))
    assert {t.spec.title for t in part.trials if t.trial_id in part.taken} == {QNORM, UNTRAINED}
    whole, foreseen = foresee(resolved, None, Only())
    assert {t.spec.title for t in whole.trials if t.trial_id in whole.taken} == {COSINE, QNORM, UNTRAINED}
    assert costs(whole, foreseen).steps == 0


def test_what_the_folder_has_itself_is_not_taken_over(make_sweep, other):
    sweep = make_sweep(reuse=[other.uri])
    finish(other, sweep, COSINE, QNORM, UNTRAINED)
    own = open_store(str(sweep.folder))
    finish(own, sweep, COSINE)
    plan, _ = foresee(resolve(sweep.file), own, Only())
    assert {t.spec.title for t in plan.trials if t.trial_id in plan.taken} == {QNORM, UNTRAINED}
    assert [trial.state for trial in plan.trials] == ["finished"] * 3


def test_the_first_of_several_folders_that_has_it_is_named(make_sweep, other, tmp_path):
    third = sweep_folder(tmp_path / "third")
    sweep = make_sweep(reuse=[other.uri, third.uri])
    finish(other, sweep, COSINE)
    finish(third, sweep, COSINE, QNORM)
    plan, _ = foresee(resolve(sweep.file), None, Only())
    sources = {t.spec.title: plan.taken.get(t.trial_id) for t in plan.trials}
    assert sources == {COSINE: other.uri, QNORM: third.uri, UNTRAINED: None}


def test_a_trial_without_its_checkpoint_is_left_and_said_so(make_sweep, other):
    sweep = make_sweep(reuse=[other.uri])
    finish(other, sweep, COSINE)
    [cosine] = [t.trial_id for t in make_plan(resolve(sweep.file), None).trials if t.spec.title == COSINE]
    other.delete(layout.checkpoint_prefix(cosine))
    plan, _ = foresee(resolve(sweep.file), None, Only())
    assert [t.state for t in plan.trials if t.trial_id == cosine] == ["left"]
    assert any(f"{COSINE} is not taken over" in notice for notice in plan.notices)


def test_searches_that_another_folder_has_decided_are_taken_over(make_sweep, other):
    sweep = make_sweep(
        reuse=[other.uri],
        axes={"similarity": ["cosine"]},
        training={"learning_rate": None},
        validation={"data": "zoo/test", "every_steps": 3},
        tune={"spaces": {"learning_rate": {"loguniform": [1e-5, 1e-3]}}, "num_samples": 1, "seed": 9},
    )
    [study] = make_plan(resolve(sweep.file), None).studies
    spec = study.cell.sample({"learning_rate": 2e-4})
    end_trial(other, spec)
    sample = Sample(
        trial_id=trial_id(spec), values={"learning_rate": 2e-4}, state="finished", scores=((6, 0.5),), steps=6
    )
    write_study(other, study.study_id, StudyRecord(title=study.cell.title, samples=(sample,)))
    found, text = planned(sweep)
    assert [(s["num_left"], s["found"], s["take_over_from"]) for s in found["studies"]] == [
        (0, {"learning_rate": 2e-4}, other.uri)
    ]
    assert f"totakeoverfrom{other.uri}:learning_rate" in "".join(text.split())
    assert found["costs"]["steps"] == 6  # the trial that it leads to
