"""The search for hyperparameters as the file writes it, the studies that come out, and what is refused."""

import random
from dataclasses import replace

import optuna
import pytest

from search_spaces.expand import expand
from search_spaces.identity import study_id, trial_id
from search_spaces.problems import InputError
from search_spaces.specs import with_data_hash
from search_spaces.tuning import Asha, ChoiceSpace, FloatSpace, IntSpace


@pytest.fixture
def tuned(raw):
    """Two similarities, two regimes, two seeds; the learning rate is searched."""
    del raw["training"]["learning_rate"]
    raw["validation"] = {"data": "attack/dev", "every_steps": 2}
    raw["tune"] = {"spaces": {"learning_rate": {"loguniform": [1e-6, 1e-3]}}, "num_samples": 4, "seed": 9}
    return raw


def studies(parse, raw):
    return expand(parse(raw), where="sweep.yaml").tuned


def problems(parse, raw):
    with pytest.raises(InputError) as caught:
        expand(parse(raw), where="sweep.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_each_cell_has_one_study_and_its_seeds_run_with_what_it_found(parse, tuned):
    expansion = expand(parse(tuned), where="sweep.yaml")
    assert [s.title for s in expansion.tuned] == [
        f"minilm/{regime}/{similarity}" for similarity in ("cosine", "qnorm") for regime in ("finetune", "random")
    ]
    study = expansion.tuned[0]
    sample = study.sample({"learning_rate": 3e-5})
    assert (sample.seed, sample.training.learning_rate, sample.training.steps) == (9, 3e-5, 10)
    assert [(t.seed, t.training.learning_rate) for t in study.chosen({"learning_rate": 5e-5})] == [(0, 5e-5), (1, 5e-5)]
    assert all(t.kind == "untrained" for t in expansion.trials)
    assert len(expansion.trials) == 3  # finetune, and random under two seeds
    assert len(expansion.probes) == 3


def test_a_study_of_one_similarity_is_of_all_similarities(parse, tuned):
    tuned["tune"]["per"] = "similarity=dot"
    finetune, _ = studies(parse, tuned)
    assert finetune.tuning.similarity.name == "dot"
    chosen = finetune.chosen({"learning_rate": 5e-5})
    assert {(t.similarity.name, t.seed) for t in chosen} == {("cosine", 0), ("cosine", 1), ("qnorm", 0), ("qnorm", 1)}
    assert {t.training.learning_rate for t in chosen} == {5e-5}


def test_other_axes_have_studies_of_their_own(parse, tuned):
    tuned["axes"]["hyperparameters"] = {"weight_decay": [0.0, 0.1]}
    assert len(studies(parse, tuned)) == 8


def test_what_is_no_value_of_a_space_is_refused(parse, tuned):
    study = studies(parse, tuned)[0]
    with pytest.raises(ValueError, match=r"learning_rate: 0.1 is not in FloatSpace\(low=1e-06, high=0.001, log=True"):
        study.sample({"learning_rate": 0.1})
    with pytest.raises(ValueError, match=r"\['steps'\] was given, and \['learning_rate'\] is tuned"):
        study.sample({"steps": 3})


@pytest.mark.parametrize(
    ("written", "space", "values"),
    [
        ({"uniform": [0.0, 0.5]}, FloatSpace(low=0.0, high=0.5), None),
        ({"loguniform": [1e-6, 1e-3]}, FloatSpace(low=1e-6, high=1e-3, log=True), None),
        ({"quniform": [0.0, 0.3, 0.1]}, FloatSpace(low=0.0, high=0.3, step=0.1), (0.0, 0.1, 0.2, 0.3)),
        ({"choice": [0.0, 0.1]}, ChoiceSpace(choices=(0.0, 0.1)), (0.0, 0.1)),
    ],
)
def test_spaces_of_floats(parse, tuned, written, space, values):
    tuned["tune"]["spaces"] = {"weight_decay": written}
    tuned["training"]["learning_rate"] = 1e-4
    [(name, found)] = studies(parse, tuned)[0].tune.spaces
    assert (name, found) == ("weight_decay", space)
    assert found.values() == (None if values is None else pytest.approx(values))


@pytest.mark.parametrize(
    ("written", "space"),
    [
        ({"int": [0, 4]}, IntSpace(low=0, high=4)),
        ({"logint": [1, 8]}, IntSpace(low=1, high=8, log=True)),
        ({"qint": [0, 8, 2]}, IntSpace(low=0, high=8, step=2)),
    ],
)
def test_spaces_of_whole_numbers(parse, tuned, written, space):
    tuned["tune"]["spaces"]["warmup_steps"] = written
    assert studies(parse, tuned)[0].tune.spaces[1] == ("warmup_steps", space)


@pytest.mark.parametrize(
    "space",
    [
        FloatSpace(low=0.0, high=0.31, step=0.1),
        FloatSpace(low=1e-6, high=1e-3, log=True),
        IntSpace(low=1, high=9, step=3),
        IntSpace(low=1, high=64, log=True),
        ChoiceSpace(choices=("cosine", "linear")),
    ],
)
def test_what_optuna_draws_of_the_same_distribution_is_in_the_space(space):
    """optuna is the oracle of what the words of a space mean."""
    match space:
        case FloatSpace():
            distribution = optuna.distributions.FloatDistribution(space.low, space.high, log=space.log, step=space.step)
        case IntSpace():
            distribution = optuna.distributions.IntDistribution(space.low, space.high, log=space.log, step=space.step)
        case ChoiceSpace():
            distribution = optuna.distributions.CategoricalDistribution(space.choices)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = {study.ask({"x": distribution}).params["x"] for _ in range(60)}
    assert all(value in space for value in drawn)
    if (values := space.values()) is not None:
        assert all(
            any(value == pytest.approx(v) if isinstance(v, float) else value == v for v in values) for value in drawn
        )
    assert None not in space


def test_a_grid_trains_every_combination(parse, tuned):
    tuned["tune"]["spaces"] = {"learning_rate": {"choice": [1e-5, 1e-4]}, "warmup_steps": {"qint": [0, 8, 4]}}
    tuned["tune"]["sampler"] = "grid"
    del tuned["tune"]["num_samples"]
    spec = studies(parse, tuned)[0].tune
    assert spec.num_samples == 6
    assert [tuple(point.values()) for point in spec.grid()] == [
        (rate, warmup) for rate in (1e-5, 1e-4) for warmup in (0, 4, 8)
    ]


def test_asha_compares_at_its_rungs(parse, tuned):
    tuned["tune"]["scheduler"] = {"name": "asha", "reduction_factor": 2}
    asha = studies(parse, tuned)[0].tune.asha
    assert asha == Asha(grace_steps=2, reduction_factor=2)  # the first validation
    assert asha.rungs(10) == (2, 4, 8)
    tuned["tune"]["scheduler"] = "asha"
    assert studies(parse, tuned)[0].tune.asha == Asha(grace_steps=2, reduction_factor=3)
    tuned["tune"]["scheduler"] = "none"
    assert studies(parse, tuned)[0].tune.asha is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "tune.seed: 1 is a seed that is reported"),
        ({"spaces": {"learning_rat": {"uniform": [0.1, 0.2]}}}, "tune.spaces: 'learning_rat' is not a hyperparameter"),
        ({"spaces": {"steps": {"int": [1, 2]}}}, "tune.spaces: steps: is the budget of every sample"),
        ({"spaces": {"learning_rate": {"uniform": [0.1, 2]}}}, "tune.spaces: learning_rate: 2.0: input should be less"),
        ({"spaces": {"learning_rate": {"int": [0, 1]}}}, "tune.spaces: learning_rate: "),
        ({"spaces": {"warmup_steps": {"uniform": [0, 1]}}}, "tune.spaces: warmup_steps: "),
        ({"spaces": {"learning_rate": {"uniform": [0.2, 0.1]}}},
         "tune.spaces.learning_rate: uniform: low (0.2) is above high (0.1)"),
        ({"spaces": {"learning_rate": {"loguniform": [0, 0.1]}}}, "tune.spaces.learning_rate: loguniform: low is 0"),
        ({"spaces": {"learning_rate": {"quniform": [0.1, 0.2, 0.5]}}},
         "tune.spaces.learning_rate: quniform: step 0.5 is not between"),
        ({"spaces": {"learning_rate": {"uniform": [0.1, 0.2], "choice": [0.1]}}},
         "tune.spaces.learning_rate: uniform and choice is given, and exactly one of"),
        ({"spaces": {"learning_rate": {}}}, "tune.spaces.learning_rate: nothing is given, and exactly one of"),
        ({"spaces": {"learning_rate": {"normal": [0, 1]}}}, "tune.spaces.learning_rate.normal: 'normal' is not a key"),
        ({"spaces": {"learning_rate": {"choice": [0.1, 0.1]}}}, "tune.spaces.learning_rate: 0.1 stands twice"),
        ({"spaces": {}}, "tune.spaces: "),
        ({"sampler": "grid"}, "tune.sampler: 'grid' needs an end of values, and learning_rate has none"),
        ({"sampler": "grid", "spaces": {"learning_rate": {"choice": [0.1]}}},
         "tune.sampler: 'grid' trains every combination: leave num_samples (4) out"),
        ({"sampler": "cmaes"}, "tune.sampler: 'cmaes': input should be 'tpe', 'random' or 'grid'"),
        ({"num_samples": None}, "tune.sampler: 'tpe' needs num_samples"),
        ({"per": "similarity=cosin"}, "tune.per: 'cosin' is not a similarity (did you mean 'cosine'?)"),
        ({"per": "family"}, "tune.per: 'family' is not what a study is of (write cell, or similarity=NAME"),
        ({"scheduler": "hyperband"}, "tune.scheduler: "),
        ({"scheduler": {"grace_steps": 1}}, "tune.scheduler.grace_steps: 1, but the first validation is after 2 steps"),
        ({"scheduler": {"grace_steps": 10}}, "tune.scheduler.grace_steps: 10, but training has 10 steps"),
        ({"spaces": {"learning_rate": {"choice": [0.1]}, "warmup_steps": {"int": [0, 10]}}},
         "tune.spaces.warmup_steps: 10, but training has 10 steps"),
    ],
)  # fmt: skip
def test_each_fault_has_a_message(parse, tuned, change, message):
    tuned["tune"] |= change
    [problem] = problems(parse, tuned)
    assert problem.startswith(f"sweep.yaml: {message}")


def test_a_search_needs_a_validation_and_no_second_value(parse, tuned):
    del tuned["validation"]
    tuned["training"]["learning_rate"] = 1e-4
    tuned["axes"]["hyperparameters"] = {"learning_rate": [1e-5]}
    assert [problem.split(": ")[1] for problem in problems(parse, tuned)] == [
        "validation",
        "training.learning_rate",
        "axes.hyperparameters.learning_rate",
    ]


def test_a_similarity_that_the_task_cannot_have_is_refused_for_the_search_too(parse, tuned):
    tuned["axes"] |= {"task": "sts", "training_data": "stsb", "similarity": "cosine", "scale": "fixed(1)"}
    tuned["validation"] = {"every_steps": 2}
    tuned["evaluation"] = {"groups": ["sts"]}
    tuned["tune"]["per"] = "similarity=qnorm"
    [problem] = problems(parse, tuned)
    assert problem.startswith("sweep.yaml: tune.per: task 'sts' needs sim(a, b) = sim(b, a), and 'qnorm'")


def hashed(cell):
    """As planning fills a study in."""

    def filled(trial):
        data = with_data_hash(trial.training_data, content_hash="d", num_pairs=9)
        weights = replace(trial.encoder.weights, content_hash="w")
        validation = replace(
            trial.validation, data=with_data_hash(trial.validation.data, content_hash="v", num_pairs=9)
        )
        return replace(
            trial, training_data=data, encoder=replace(trial.encoder, weights=weights), validation=validation
        )

    return replace(cell, tuning=filled(cell.tuning), reporting=tuple(filled(t) for t in cell.reporting))


def test_a_study_goes_on_with_more_samples_and_is_another_with_another_space(parse, tuned):
    def ids(**change):
        return [study_id(hashed(s)) for s in studies(parse, {**tuned, "tune": tuned["tune"] | change})]

    base = ids()
    assert len(set(base)) == 4
    assert ids(num_samples=40) == base
    for change in (
        {"spaces": {"learning_rate": {"uniform": [1e-6, 1e-3]}}},
        {"spaces": {"learning_rate": {"loguniform": [1e-6, 1e-4]}}},
        {"seed": 10},
        {"sampler": "random"},
        {"scheduler": "asha"},
        {"metric": "last_validation"},
    ):
        assert not set(ids(**change)) & set(base), change


def test_a_sample_is_a_trial_like_any_other(parse, tuned, raw):
    study = hashed(studies(parse, tuned)[0])
    values = {"learning_rate": random.Random(0).uniform(1e-5, 1e-4)}
    assert trial_id(study.sample(values)) == trial_id(study.sample(values))
    assert trial_id(study.sample(values)) != trial_id(study.chosen(values)[0])  # another seed
