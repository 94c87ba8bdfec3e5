"""Axes and hyperparameters that vary together: which cells come out, and what is refused."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError


def cells(parse, raw):
    trials = expand(parse(raw), where="sweep.yaml").trials
    return [(t.similarity.name, t.seed, t.training.learning_rate) for t in trials if t.kind == "train"]


def problems(parse, raw):
    with pytest.raises(InputError) as caught:
        expand(parse(raw), where="sweep.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.fixture
def zipped(raw):
    raw["axes"] |= {"init_regime": "finetune", "hyperparameters": {"learning_rate": [1e-4, 2e-4]}}
    del raw["training"]["learning_rate"]
    raw["zip"] = [["similarity", "learning_rate"]]
    return raw


def test_what_is_zipped_varies_together_and_the_rest_is_crossed(parse, zipped):
    assert sorted(cells(parse, zipped)) == [
        ("cosine", 0, 1e-4),
        ("cosine", 1, 1e-4),
        ("qnorm", 0, 2e-4),
        ("qnorm", 1, 2e-4),
    ]


def test_two_lists_are_crossed_with_each_other(parse, zipped):
    zipped["axes"]["hyperparameters"]["warmup_steps"] = [1, 2]
    zipped["zip"].append(["seed", "warmup_steps"])
    trials = [t for t in expand(parse(zipped), where="x").trials if t.kind == "train"]
    found = {(t.similarity.name, t.training.learning_rate, t.seed, t.training.warmup_steps) for t in trials}
    assert len(trials) == len(found) == 4
    assert {(s, r) for s, r, *_ in found} == {("cosine", 1e-4), ("qnorm", 2e-4)}
    assert {(seed, w) for *_, seed, w in found} == {(0, 1), (1, 2)}


def test_an_include_block_gives_all_of_what_is_zipped_or_none(parse, zipped):
    zipped["include"] = [{"similarity": "dot", "seed": 7, "hyperparameters": {"learning_rate": 5e-4}}]
    assert [cell for cell in cells(parse, zipped) if cell[1] == 7] == [("dot", 7, 5e-4)]
    zipped["include"] = [{"similarity": "dot"}]
    [problem] = problems(parse, zipped)
    assert problem == (
        "sweep.yaml: include[0]: values that vary together are as many of each, and in include[0] similarity has 1, "
        "learning_rate has 2"
    )


def test_lists_of_different_length_are_refused(parse, zipped):
    zipped["axes"]["hyperparameters"]["learning_rate"] = [1e-4, 2e-4, 3e-4]
    [problem] = problems(parse, zipped)
    assert problem.startswith("sweep.yaml: zip[0]: values that vary together are as many of each, and in axes sim")
    assert "similarity has 2, learning_rate has 3" in problem


def test_a_hyperparameter_that_is_no_axis_is_refused(parse, zipped):
    zipped["zip"] = [["similarity", "warmup_steps"]]
    assert "similarity has 2, warmup_steps has 0" in problems(parse, zipped)[0]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["similarity", "learning_rat"]], "zip[0][1]: 'learning_rat' is not an axis or hyperparameter (did you mean"),
        ([["similarity"]], "zip[0]: [similarity] names no two different axes"),
        ([["seed", "seed"]], "zip[0]: [seed, seed] names no two different axes"),
        ([["seed", "similarity"], ["similarity", "steps"]], "zip: 'similarity' stands in two lists"),
        ("seed", "zip: 'seed': input should be"),
    ],
)
def test_each_fault_has_a_message(parse, raw, groups, message):
    raw["zip"] = groups
    [problem] = problems(parse, raw)
    assert problem.startswith(f"sweep.yaml: {message}")


def test_exclude_reads_scales_and_hyperparameters(parse, zipped):
    zipped["exclude"] = [{"hyperparameters": {"learning_rate": 2e-4}, "seed": 1}]
    assert sorted(cells(parse, zipped)) == [("cosine", 0, 1e-4), ("cosine", 1, 1e-4), ("qnorm", 0, 2e-4)]
    zipped["exclude"] = [{"scale": "matched"}]
    assert problems(parse, zipped) == ["sweep.yaml: exclude[0]: matches no cell of this file"]
    zipped["exclude"] = [{}]
    assert problems(parse, zipped) == ["sweep.yaml: exclude[0]: names no axis, so it would exclude everything"]


def test_values_that_vary_together_may_repeat_but_not_all_of_them(parse, zipped):
    zipped["axes"]["similarity"] = ["cosine", "qnorm", "dot"]
    zipped["axes"]["hyperparameters"]["learning_rate"] = [1e-4, 2e-4, 2e-4]
    assert {cell[::2] for cell in cells(parse, zipped)} == {("cosine", 1e-4), ("qnorm", 2e-4), ("dot", 2e-4)}
    zipped["axes"]["similarity"] = ["cosine", "qnorm", "qnorm"]
    [problem] = problems(parse, zipped)
    assert problem == "sweep.yaml: zip[0]: qnorm, 0.0002 stand together twice in axes"
    del zipped["zip"]
    assert [p.split(": ", 1)[1] for p in problems(parse, zipped)] == [
        "axes.similarity: 'qnorm' stands twice",
        "axes.hyperparameters: learning_rate: 0.0002 stands twice",
    ]
