"""Keys in messages are those that the file has: an include block is not blamed for what it takes from the axes."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError
from search_spaces.split_keys import split_keys


def keys(parse, content):
    with pytest.raises(InputError) as caught:
        expand(parse(content), where="sweep.yaml")
    return [problem.key for problem in caught.value.problems]


def stands(content, key):
    """Whether a key of a message, without what is quoted after it, is one of the file."""
    for part in key.partition(" ")[0].replace("[", ".[").split("."):
        try:
            if part.startswith("["):
                content = content[int(part[1:-1])] if isinstance(content, list) else content
            else:
                content = content[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"init_regime": ["finetune", "from_base"]}, ["axes.init_regime[1]"]),
        ({"training_data": "pydoc"}, ["axes.training_data[0]"]),
        ({"task": "sts", "training_data": "stsb", "similarity": "cosine"}, ["axes.scale"]),
        ({"training_data": "stsb"}, ["axes.training_data"]),
    ],
)
def test_what_an_include_block_takes_over_is_a_fault_of_the_axes(parse, raw, change, expected):
    raw["axes"] |= change
    raw["include"] = [{"seed": 7}]
    found = keys(parse, raw)
    assert sorted(set(found)) == expected
    assert len(found) == len(set(found)), "a fault is told once"


def test_what_it_gives_itself_is_its_own(parse, raw):
    raw["include"] = [
        {"init_regime": "from_base"},
        {"hyperparameters": {"warmup_steps": [3, 10]}},
        {"task": "sts", "similarity": "qnorm", "training_data": "stsb"},
    ]
    found = keys(parse, raw)
    assert set(found) == {
        "include[0].init_regime[0]",
        "include[1].hyperparameters.warmup_steps",
        "include[2].similarity",
        "axes.scale",
    }
    assert all(stands(raw, key) for key in found)


def test_a_value_that_an_axis_makes_idle_is_refused(parse, raw):
    raw["axes"]["hyperparameters"] = {"learning_rate": [1e-4, 1e-5], "weight_decay": 0.1}
    with pytest.raises(InputError) as caught:
        expand(parse(raw), where="sweep.yaml")
    [line] = map(str, caught.value.problems)
    assert line == (
        "sweep.yaml: training.learning_rate: is an axis (axes.hyperparameters.learning_rate), so that this value would "
        "do nothing: leave it out"
    )
    del raw["axes"]["hyperparameters"]["learning_rate"]
    raw["include"] = [{"seed": 5, "hyperparameters": {"learning_rate": 1e-5}}]
    rates = {(t.seed, t.training.learning_rate) for t in expand(parse(raw), where="x").trials if t.training}
    assert rates == {(0, 1e-4), (1, 1e-4), (5, 1e-5)}, "of the axes' own cells it is the rate"


def test_where_a_split_is_asked_for(parse, raw, tmp_path):
    (tmp_path / "data").mkdir()
    raw["data_sets"] = [{"name": "zoo", "source": "path:data", "train_split": "trian", "dev_split": "dve"}]
    raw["axes"]["training_data"] = ["zoo", "zoo/other"]
    raw["validation"] = {"every_steps": 5}
    raw["evaluation"]["groups"] = {"in_domain": ["zoo", "zoo/held_out"]}
    found = {f"{spec.name}/{spec.split}": key for spec, key in split_keys(parse(raw)).items()}
    assert found == {
        "zoo/trian": "data_sets[0].train_split",
        "zoo/other": "axes.training_data",
        "zoo/dve": "data_sets[0].dev_split",
        "zoo/test": "evaluation.groups.in_domain",
        "zoo/held_out": "evaluation.groups.in_domain",
    }
    assert all(stands(raw, key) for key in found.values())
