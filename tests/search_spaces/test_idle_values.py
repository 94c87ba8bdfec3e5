"""Values that would change nothing are refused where they stand; those that some cell uses are not."""

from dataclasses import replace

import pytest

from search_spaces.expand import expand
from search_spaces.identity import trial_id
from search_spaces.problems import InputError
from search_spaces.specs import Execution


def problems(parse, raw):
    with pytest.raises(InputError) as error:
        expand(parse(raw), where="sweep.yaml")
    return [str(problem) for problem in error.value.problems]


NO_ADAPTERS = "each trains no adapters, since lora_rank is not given (give a lora_rank, or leave it out)"
NO_EXPONENTS = "each trains no exponents: only similarity 'learnable' has such (leave it out, or add that similarity)"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("lora_alpha", 8.0, NO_ADAPTERS),
        ("lora_alpha", 16.0, NO_ADAPTERS),  # the default, which somebody wrote down
        ("lora_dropout", 0.1, NO_ADAPTERS),
        ("gamma_learning_rate", 0.1, NO_EXPONENTS),
    ],
)
@pytest.mark.parametrize("place", ["training", "axis", "include", "searched"])
def test_what_no_cell_uses_is_refused_where_it_stands(parse, raw, name, value, why, place):
    if place == "training":
        raw["training"][name] = value
        key = f"training.{name}"
    elif place == "axis":
        raw["axes"]["hyperparameters"] = {name: value}
        key = f"axes.hyperparameters.{name}"
    elif place == "include":
        raw["include"] = [{"seed": 7, "hyperparameters": {name: value}}]
        key = f"include[0].hyperparameters.{name}"
    else:
        raw["validation"] = {"data": "attack/dev", "every_steps": 5}
        raw["tune"] = {"spaces": {name: {"choice": [value / 2, value]}}, "num_samples": 2, "seed": 99}
        key = f"tune.spaces.{name}"
    assert f"sweep.yaml: {key}: no cell uses it: {why}" in problems(parse, raw)


@pytest.mark.parametrize("name", ["lora_alpha", "lora_dropout"])
def test_with_a_rank_adapters_have_an_effect(parse, raw, name):
    raw["training"] |= {name: 0.5, "lora_rank": 4}
    assert expand(parse(raw), where="x").trials
    del raw["training"]["lora_rank"]
    raw["axes"]["hyperparameters"] = {"lora_rank": [4, 8]}
    assert expand(parse(raw), where="x").trials


def test_a_rate_of_exponents_is_of_one_similarity(parse, raw):
    raw["training"]["gamma_learning_rate"] = 0.1
    raw["axes"]["similarity"] = ["cosine", "learnable"]
    assert expand(parse(raw), where="x").trials


def test_an_axis_that_trains_some_cells_alike_is_refused(parse, raw):
    """Cosine under two rates of exponents would be trained twice, to the same checkpoint."""
    raw["axes"] |= {"similarity": ["cosine", "learnable"], "hyperparameters": {"gamma_learning_rate": [0.05, 0.1]}}
    [problem] = problems(parse, raw)
    assert problem == (
        "sweep.yaml: axes.hyperparameters.gamma_learning_rate: would train the same again: minilm/finetune/cosine "
        "trains no exponents: only similarity 'learnable' has such (give it in an include block)"
    )
    del raw["axes"]["hyperparameters"]
    raw["axes"]["similarity"] = "cosine"
    raw["include"] = [{"similarity": "learnable", "hyperparameters": {"gamma_learning_rate": [0.05, 0.1]}}]
    trained = [trial for trial in expand(parse(raw), where="x").trials if trial.training]
    assert [t.similarity.name for t in trained].count("cosine") == 4  # two regimes, two seeds
    assert len({trial_id(replace(t, execution=Execution())) for t in known(trained)}) == len(trained)


def known(trials):
    """With content hashes, which identities need."""
    for trial in trials:
        weights = replace(trial.encoder.weights, content_hash="w")
        encoder = replace(trial.encoder, weights=weights)
        yield replace(trial, encoder=encoder, training_data=replace(trial.training_data, content_hash="d", num_pairs=9))


def test_values_that_vary_together_may_be_idle_in_some_of_the_cells(parse, raw):
    raw["axes"] |= {"similarity": ["cosine", "learnable"], "hyperparameters": {"gamma_learning_rate": [0.05, 0.1]}}
    raw["zip"] = [["similarity", "gamma_learning_rate"]]
    assert expand(parse(raw), where="x").trials


@pytest.mark.parametrize(
    ("name", "block"), [("head_queries", "head"), ("weights_queries", "weights"), ("weights_layers", "weights")]
)
def test_what_is_of_a_block_that_no_probe_computes_is_refused(parse, raw, name, block):
    raw["probe"] = {name: 2}
    [problem] = problems(parse, raw)
    assert problem.startswith(f"sweep.yaml: probe.{name}: is of block '{block}', which is not among the blocks")
    raw["probe"]["blocks"] = ["embedding", block]
    assert expand(parse(raw), where="x").probes
