"""Crossing the axes: which trials, probes and evaluations come out, and which cells do not exist."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError


def _expand(parse, raw):
    return expand(parse(raw), where="sweep.yaml")


def _titles(specs):
    return [spec.title for spec in specs]


def test_axes_are_crossed_and_untrained_checkpoints_added(parse, raw):
    expansion = _expand(parse, raw)
    trained = [t for t in expansion.trials if t.kind == "train"]
    assert len(trained) == len(set(trained)) == 2 * 2 * 2
    # A seed only where the starting weights depend on it.
    assert sorted(_titles(t for t in expansion.trials if t.kind == "untrained")) == [
        "minilm/finetune/untrained",
        "minilm/random/untrained/s0",
        "minilm/random/untrained/s1",
    ]
    assert sorted(_titles(expansion.probes)) == [
        "probe minilm/finetune",
        "probe minilm/random/s0",
        "probe minilm/random/s1",
    ]


def test_include_overrides_axes_and_hyperparameters(parse, raw):
    raw["axes"]["hyperparameters"] = {"learning_rate": [1e-4, 2e-4]}
    del raw["training"]["learning_rate"]
    raw["include"] = [
        {
            "family": {"name": "smollm2", "layers": 2},
            "init_regime": "from_base",
            "seed": 7,
            "hyperparameters": {"learning_rate": 5e-4, "steps": [1, 2]},
        }
    ]
    expansion = _expand(parse, raw)
    added = [t for t in expansion.trials if t.encoder.family == "smollm2" and t.kind == "train"]
    assert {(t.similarity.name, t.seed, t.training.learning_rate, t.training.steps) for t in added} == {
        (similarity, 7, 5e-4, steps) for similarity in ("cosine", "qnorm") for steps in (1, 2)
    }
    first = [t for t in expansion.trials if t.encoder.family == "minilm" and t.kind == "train"]
    assert {t.training.learning_rate for t in first} == {1e-4, 2e-4}
    assert len(first) == 16


def test_exclude_takes_out_cells_that_match_every_axis_named(parse, raw):
    raw["exclude"] = [{"similarity": "qnorm", "init_regime": "random"}]
    cells = {(t.similarity.name, t.encoder.init_regime) for t in _expand(parse, raw).trials if t.similarity}
    assert cells == {("cosine", "finetune"), ("cosine", "random"), ("qnorm", "finetune")}


def test_excluding_everything_is_refused(parse, raw):
    raw["exclude"] = [{"family": "minilm"}]
    with pytest.raises(InputError, match="no cell is left to run"):
        _expand(parse, raw)


def test_a_cell_without_its_checkpoint_is_refused_or_left_out_on_request(parse, raw):
    raw["axes"]["init_regime"] = ["finetune", "from_base"]
    with pytest.raises(InputError) as caught:
        _expand(parse, raw)
    [problem] = caught.value.problems
    assert str(problem).startswith(
        "sweep.yaml: axes.init_regime[1]: 'from_base' needs a base checkpoint, and family 'minilm' has none"
    )
    raw["missing_checkpoints"] = "leave_out"
    expansion = _expand(parse, raw)
    assert {t.encoder.init_regime for t in expansion.trials} == {"finetune"}
    [cell] = expansion.left_out
    assert (cell.title, cell.reason) == (
        "minilm/from_base",
        "'from_base' needs a base checkpoint, and family 'minilm' has none",
    )


def test_an_excluded_cell_needs_no_checkpoint(parse, raw):
    raw["axes"]["init_regime"] = ["finetune", "from_base"]
    raw["exclude"] = [{"init_regime": "from_base"}]
    assert _expand(parse, raw).left_out == ()


def test_required_settings_have_no_default(parse, raw):
    del raw["training"]["steps"]
    with pytest.raises(InputError, match=r"training\.steps: is required, and has no default"):
        _expand(parse, raw)
    raw["axes"]["hyperparameters"] = {"steps": [5]}
    assert {t.training.steps for t in _expand(parse, raw).trials if t.training} == {5}


def test_training_on_a_data_set_without_train_split_is_refused(parse, raw):
    raw["axes"]["training_data"] = "pydoc"
    with pytest.raises(InputError, match=r"axes\.training_data\[0\]: data set 'pydoc' names no train split"):
        _expand(parse, raw)
    raw["include"] = [{"similarity": "dot"}]
    with pytest.raises(InputError) as caught:
        _expand(parse, raw)
    assert "include" not in str(caught.value), "the block takes its training data from the axes"
    raw["include"] = [{"similarity": "dot", "training_data": ["attack", "pydoc"]}]
    with pytest.raises(InputError, match=r"include\[0\]\.training_data\[1\]: data set 'pydoc' names no train split"):
        _expand(parse, raw)
    del raw["include"]
    raw["axes"]["training_data"] = "pydoc/test"
    assert _expand(parse, raw).trials[0].training_data.split == "test"


def test_a_data_set_in_two_groups_is_evaluated_once(parse, raw):
    raw["evaluation"]["groups"] = {"in_domain": "attack", "all": ["attack/test", "pydoc_small"]}
    evaluations = _expand(parse, raw).evaluations
    assert [(e.spec.data.name, e.groups) for e in evaluations] == [
        ("attack", ("in_domain", "all")),
        ("pydoc_small", ("all",)),
    ]


def test_primary_groups_default_to_those_out_of_domain(parse, raw):
    assert _expand(parse, raw).primary_groups == ("out_of_domain",)
    raw["evaluation"]["groups"] = {"in_domain": "attack"}
    assert _expand(parse, raw).primary_groups == ("in_domain",)


def test_threads_follow_the_cpus_asked_for(parse, raw):
    assert {t.execution.threads for t in _expand(parse, raw).trials} == {1}
    raw["resources"] = {"cpus": 2}
    assert {t.execution.threads for t in _expand(parse, raw).trials} == {2}
    raw["resources"] = {"cpus": 2, "threads": 1}
    assert {t.execution.threads for t in _expand(parse, raw).trials} == {1}


def test_lengths_and_layers_are_the_sweeps_own(parse, raw):
    raw["axes"]["family"] = {"name": "minilm", "layers": 3, "max_query_length": 16}
    encoder = _expand(parse, raw).trials[0].encoder
    assert (encoder.layers, encoder.max_query_length, encoder.max_document_length) == (3, 16, 256)
