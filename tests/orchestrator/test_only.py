"""`--only`: every value of an axis is taken as the sweep file may write it, in plans of a real file."""

import pytest

from orchestrator.only import parse_only
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from search_spaces.problems import InputError


@pytest.fixture(scope="module")
def resolved(tmp_path_factory, make_sweep_in):
    """Two values of every axis that can have two of one small collection."""
    sweep = make_sweep_in(
        tmp_path_factory.mktemp("only"),
        axes={
            "training_data": ["zoo", "zoo/test"],
            "family": [{"name": "minilm", "layers": layers, "max_query_length": 16} for layers in (1, 2)],
            "init_regime": ["finetune", "random"],
            "seed": [0, 1],
            "scale": ["fixed(20)", "matched"],
            "hyperparameters": {"learning_rate": [1e-4, 1e-5], "schedule": ["linear", "cosine"]},
        },
        training={"learning_rate": None, "global_batch": 4, "lora_rank": None},
        probe={"num_queries": 8, "candidates_per_query": 4},
    )
    return resolve(sweep.file)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("scale=matched", "scale=matched(20)"),
        ("scale=fixed(20)", "scale=fixed(20.0)"),
        ("training_data=zoo/test", "training_data=zoo/test"),
        ("family=minilm-2l", "family=minilm-2l"),
        ("similarity=qnorm", "similarity=qnorm"),
        ("init_regime=random", "init_regime=random"),
        ("seed=1", "seed=1.0"),
        ("learning_rate=1e-5", "learning_rate=0.00001"),
        ("schedule=linear", "schedule=linear"),
    ],
)
def test_a_value_takes_one_half_however_it_is_written(resolved, text, same):
    only, other = (parse_only(written, resolved.expansion) for written in (text, same))
    assert only == other
    trained = [t.spec for t in make_plan(resolved, None).trials if t.spec.kind == "train"]
    taken = [spec for spec in trained if only.takes(spec)]
    assert 2 * len(taken) == len(trained) == 2**8


@pytest.mark.parametrize(
    "text", ["training_data=zoo", "family=minilm", "lora_rank=none", "lora_rank=null", "task=contrastive"]
)
def test_what_all_have_takes_all(resolved, text):
    only = parse_only(text, resolved.expansion)
    assert all(only.takes(t.spec) for t in make_plan(resolved, None).trials)


def test_values_that_are_not_there_are_told_with_those_that_are(resolved):
    with pytest.raises(InputError) as caught:
        parse_only("scale=matched(1),family=minilm-3l,training_data=zoo/dev,scale=huge", resolved.expansion)
    lines = [str(problem) for problem in caught.value.problems]
    assert len(lines) == 4
    assert "'matched(1)' is not a scale of this sweep (did you mean 'matched(20)'?)" in lines[0]
    assert "did you mean 'minilm-" in lines[1]
    assert "'zoo/dev' is not a training_data of this sweep" in lines[2]
    assert "'huge' is not a scale of this sweep (known: fixed(20), matched(20))" in lines[3]
