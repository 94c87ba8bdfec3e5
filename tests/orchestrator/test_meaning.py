"""What a file means by the names of finished trials may not change under them; the field that does is named."""

import json
from dataclasses import replace

import pytest

from orchestrator.meaning import meaning_problems
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results.layout import SWEEP_RECORD, PlannedTrial, spec_key, to_bytes, trial_prefix, trial_rows
from results.store import open_store
from search_spaces.specs import to_json


def planned(sweep):
    return make_plan(resolve(sweep.file), None)


@pytest.fixture
def finished(make_sweep):
    """A sweep whose trials are finished, as far as meaning is concerned; and its folder."""

    def finish(**blocks):
        sweep = make_sweep(**blocks)
        return sweep, record_as_finished(sweep)

    return finish


def record_as_finished(sweep):
    plan, store = planned(sweep), open_store(str(sweep.folder))
    store.write(SWEEP_RECORD, to_bytes(sweep_record(plan)))
    for trial in plan.trials:
        store.write(spec_key(trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
        store.write(trial_rows(trial.trial_id), b"rows")
    return store


def problems(sweep, store):
    return [(problem.key, problem.message) for problem in meaning_problems(planned(sweep), store)]


def edit(sweep, old, new):
    sweep.file.write_text(sweep.file.read_text().replace(old, new))


def test_primary_groups_declared_after_a_trial_has_finished_are_kept_beside_those_that_decide(make_sweep):
    sweep = make_sweep()
    first, store = planned(sweep), open_store(str(sweep.folder))
    assert first.primary.groups
    record = sweep_record(first)
    other = (*first.primary.groups, "another")
    finished = PlannedTrial(trial_id="finished", title="a trial of the file as it was")
    store.write(SWEEP_RECORD, to_bytes(replace(record, primary_groups=other, trials=(finished,))))
    assert make_plan(resolve(sweep.file), store).primary.groups == first.primary.groups, "nothing has finished"
    store.write(trial_rows(finished.trial_id), b"rows")
    recorded = sweep_record(make_plan(resolve(sweep.file), store))
    assert recorded.primary_groups == other
    assert [later.groups for later in recorded.redeclared] == [first.primary.groups]


def test_what_did_not_change_is_no_problem(finished):
    sweep, store = finished()
    assert problems(sweep, store) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps: 6", "steps: 12"),
        ("learning_rate: 0.0001", "learning_rate: 0.0002"),
        ("seed: 0", "seed: [0, 1]"),
        ("- cosine", "- cosine\n  - dot"),
        ("fixed(20)", "matched"),
    ],
)
def test_extending_and_other_settings_are_other_trials(finished, old, new):
    sweep, store = finished()
    edit(sweep, old, new)
    assert problems(sweep, store) == []


def test_changed_content_of_a_data_set_is_refused_by_its_name(finished):
    sweep, store = finished()
    corpus = sweep.file.parent / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("The ant lives in the wood.", "The ant lives in the wall."))
    (training, told), (evaluated, also_told) = problems(sweep, store)
    assert (training, evaluated) == ("training_data", "evaluation.groups")
    assert told.startswith("split 'train' of data set 'zoo' changed: it was ")
    assert "when minilm-1l/finetune/cosine/s0 and 1 more finished, and is " in told
    assert also_told.startswith("split 'test' of data set 'zoo' changed: it was ")
    assert "give what it is now another name" in told


def test_the_same_content_elsewhere_is_the_same(finished):
    sweep, store = finished()
    (sweep.file.parent / "data").rename(sweep.file.parent / "moved")
    edit(sweep, "path:data", "path:moved")
    assert problems(sweep, store) == []


def test_another_threshold_makes_other_pairs(make_sweep):
    sweep = make_sweep()
    for qrels in (sweep.file.parent / "data" / "qrels").glob("*.tsv"):
        head, *lines = qrels.read_text().splitlines()
        qrels.write_text("\n".join([head, *(line.rsplit("\t", 1)[0] + "\t2" for line in lines)]) + "\n")
    store = record_as_finished(sweep)
    edit(sweep, "train_split: train", "train_split: train\n  relevance_threshold: 2")
    [(key, told)] = problems(sweep, store)
    assert key == "training_data"
    assert told.startswith("relevance_threshold of data set 'zoo' changed: it was 1 when ")
    assert " finished, and is 2 (" in told


def test_other_weights_under_the_name_of_a_family_are_refused(finished):
    sweep, store = finished()
    key = next(key for key in store.list("trials") if key.endswith("spec.json"))
    spec = json.loads(store.read(key))
    old = spec["encoder"]["weights"]["content_hash"]
    for key in [key for key in store.list("trials") if key.endswith("spec.json")]:
        trial = key.split("/")[1]
        store.write(f"trials/{trial[::-1]}/spec.json", store.read(key).replace(old.encode(), b"0" * 64))
        store.write(trial_rows(trial[::-1]), b"rows")
    record = sweep_record(planned(sweep))
    before = tuple(replace(t, trial_id=t.trial_id[::-1]) for t in record.trials)
    store.write(SWEEP_RECORD, to_bytes(replace(record, trials=before)))
    [(field, told)] = problems(sweep, store)
    assert field == "family"
    assert told.startswith(f"the weights of family 'minilm' under 'finetune' changed: it was {'0' * 16} when ")
    assert f"and is {old[:16]} (" in told


def test_a_spec_that_is_no_longer_its_trials_is_refused_with_the_field(finished):
    sweep, store = finished()
    key = next(key for key in store.list("trials") if key.endswith("spec.json") and b'"qnorm"' in store.read(key))
    store.write(key, store.read(key).replace(b'"weight_decay": 0.01', b'"weight_decay": 0.02'))
    [(place, told)] = problems(sweep, store)
    assert place == f"trial {key.split('/')[1]}, minilm-1l/finetune/qnorm/s0"
    assert "(training.weight_decay differs): restore that file" in told


def test_trials_that_are_not_finished_mean_nothing_yet(finished):
    sweep, store = finished()
    for key in [key for key in store.list("trials") if key.endswith("trial.parquet")]:
        store.delete(key)
    corpus = sweep.file.parent / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("The ant", "An ant"))
    assert problems(sweep, store) == []


def test_run_and_plan_refuse(finished):
    sweep, store = finished()
    [untrained] = [trial.trial_id for trial in planned(sweep).trials if trial.spec.kind == "untrained"]
    store.delete(trial_rows(untrained))  # its identity stays, and its rows here are none
    corpus = sweep.file.parent / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("The ant", "An ant"))
    for command in ("plan", "run"):
        done = sweep.here(command, "sweep.yaml")
        assert done.returncode == 2
        assert "sweep.yaml: training_data: split 'train' of data set 'zoo' changed" in done.stderr
