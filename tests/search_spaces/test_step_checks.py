"""Settings that would do nothing in so few steps are refused, by cell."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError


def problems(parse, raw):
    with pytest.raises(InputError) as error:
        expand(parse(raw), where="sweep.yaml")
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize("warmup_steps", [10, 1000])
def test_a_warm_up_that_never_ends(parse, raw, warmup_steps):
    raw["training"] |= {"steps": 10, "warmup_steps": warmup_steps}
    [problem] = problems(parse, raw)
    start = f"sweep.yaml: training.warmup_steps: {warmup_steps}, but training has 10 steps"
    assert problem == f"{start}: it would never reach its learning rate"


def test_a_validation_that_never_comes(parse, raw):
    raw["training"] |= {"steps": 10}
    raw["validation"] = {"data": "attack/dev", "every_steps": 11}
    [problem] = problems(parse, raw)
    start = "sweep.yaml: validation.every_steps: 11, but training has 10 steps"
    assert problem == f"{start}: nothing would be validated"


def test_the_cell_in_which_it_is_too_many_is_named(parse, raw):
    raw["training"] |= {"steps": 10}
    raw["axes"]["hyperparameters"] = {"warmup_steps": [9, 10]}
    [problem] = problems(parse, raw)
    assert problem.startswith("sweep.yaml: axes.hyperparameters.warmup_steps: 10, but training has 10 steps")


def test_the_last_step_may_be_the_first_validated_and_the_first_after_the_warm_up(parse, raw):
    raw["training"] |= {"steps": 10, "warmup_steps": 9}
    raw["validation"] = {"data": "attack/dev", "every_steps": 10}
    assert expand(parse(raw), where="sweep.yaml").trials
