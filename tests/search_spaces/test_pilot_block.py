"""The pilot block: which pilots a file has, what they are, and what is refused."""

from dataclasses import replace

import pytest

from search_spaces.expand import expand, named, named_data
from search_spaces.identity import UnstableIdentityError, trial_id
from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec, with_data_hash


def pilots_of(parse, raw):
    return [t for t in expand(parse(raw), where="sweep.yaml").trials if t.kind == "pilot"]


def problems(parse, raw):
    with pytest.raises(InputError) as error:
        expand(parse(raw), where="sweep.yaml")
    return [str(problem) for problem in error.value.problems]


def test_each_cell_has_one_of_each_side_and_drawn_weights_one_for_each_seed(parse, raw):
    raw["pilot"] = {"steps": 4}
    raw["training"] |= {"warmup_steps": 3}
    found = pilots_of(parse, raw)
    assert [pilot.title for pilot in found] == [
        "pilot minilm/finetune/qnorm/s0",
        "pilot minilm/finetune/dnorm/s0",
        "pilot minilm/random/qnorm/s0",
        "pilot minilm/random/dnorm/s0",
        "pilot minilm/random/qnorm/s1",
        "pilot minilm/random/dnorm/s1",
    ]
    for pilot in found:
        settings = pilot.training
        assert (settings.steps, settings.schedule, settings.warmup_steps) == (4, "constant", 0)
        assert (settings.global_batch, settings.learning_rate) == (8, 1e-4)
        assert (pilot.validation.data.name, pilot.validation.data.split) == ("attack", "dev")
        assert (pilot.validation.num_queries, pilot.validation.num_documents) == (200, 2000)


def test_of_several_hyperparameters_the_first_are_taken(parse, raw):
    raw["pilot"] = {"steps": 4, "similarities": ["qnorm", "dnorm", "dot"]}
    raw["axes"] |= {"init_regime": "finetune", "hyperparameters": {"learning_rate": [2e-4, 1e-4]}}
    del raw["training"]["learning_rate"]
    found = pilots_of(parse, raw)
    assert [pilot.similarity.name for pilot in found] == ["qnorm", "dnorm", "dot"]
    assert {pilot.training.learning_rate for pilot in found} == {2e-4}


def test_without_the_block_there_are_none_and_identities_are_those_of_before(parse, raw):
    assert pilots_of(parse, raw) == []
    plain = {identity(t) for t in expand(parse(raw), where="sweep.yaml").trials}
    raw["pilot"] = {"steps": 4}
    assert {identity(t) for t in expand(parse(raw), where="sweep.yaml").trials if t.kind != "pilot"} == plain


def identity(trial):
    weights = WeightsSpec(source="path:x", content_hash="w")
    data = trial.training_data and with_data_hash(trial.training_data, content_hash="d", num_pairs=3)
    return trial_id(replace(trial, encoder=replace(trial.encoder, weights=weights), training_data=data))


def test_what_is_logged_is_no_part_of_the_identity(parse, raw):
    quiet, [*logging] = expand(parse(raw), where="sweep.yaml").trials, []
    raw["training"] |= {"log_kappa_every": 2}
    logging = expand(parse(raw), where="sweep.yaml").trials
    assert list(map(identity, quiet)) == list(map(identity, logging))
    assert {t.log_kappa_every for t in logging if t.kind == "train"} == {2}
    assert {t.log_kappa_every for t in quiet} == {None}
    with pytest.raises(UnstableIdentityError):
        trial_id(quiet[0])


def test_more_steps_than_are_trained_log_nothing(parse, raw):
    raw["training"] |= {"log_kappa_every": 11}
    [problem] = problems(parse, raw)
    expected = "training.log_kappa_every: 11, but training has 10 steps: nothing would be logged"
    assert problem == f"sweep.yaml: {expected}"


def test_both_sides_are_always_piloted(parse, raw):
    raw["pilot"] = {"steps": 4, "similarities": ["qnorm", "dot"]}
    with pytest.raises(InputError, match="'dnorm' is always among them"):
        parse(raw)


def test_pilots_are_not_scored_on_what_trials_are_evaluated_on(parse, raw):
    raw["pilot"] = {"steps": 4, "data": "attack/test"}
    [problem] = problems(parse, raw)
    assert problem.startswith("sweep.yaml: pilot.data: trials are evaluated on attack/test")


def test_data_without_a_dev_split_is_refused(parse, raw):
    raw["pilot"] = {"steps": 4, "data": "pydoc_small"}
    [problem] = problems(parse, raw)
    assert "pilot.data: data set 'pydoc_small' names no dev split" in problem


def test_a_file_that_searches_has_no_pilots(parse, raw):
    raw["pilot"] = {"steps": 4}
    raw["validation"] = {"every_steps": 5}
    raw["tune"] = {"spaces": {"learning_rate": {"loguniform": [1e-6, 1e-4]}}, "num_samples": 2, "seed": 0}
    del raw["training"]["learning_rate"]
    assert any("pilots run before anything is searched" in problem for problem in problems(parse, raw))


def test_the_file_names_what_pilots_are_scored_on(parse, raw):
    raw["pilot"] = {"steps": 4}
    assert [(d.name, d.split) for d in named(parse(raw)).piloted] == [("attack", "dev")]
    assert ("attack", "dev") in [(d.name, d.split) for d in named_data(parse(raw))]
