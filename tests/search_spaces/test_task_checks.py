"""A cell that contradicts its task is refused with the reason and the remedy."""

import re

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError


@pytest.fixture
def raw(raw):
    """A sweep over scored pairs."""
    raw["axes"] |= {"task": "sts", "training_data": "stsb", "similarity": ["cosine", "dot"], "scale": "fixed(1)"}
    raw["evaluation"] = {"groups": {"sts": ["stsb", "sickr"]}}
    return raw


@pytest.fixture
def refused(parse):
    def problems(raw):
        with pytest.raises(InputError) as error:
            expand(parse(raw), where="sweep.yaml")
        return str(error.value)

    return problems


def test_the_symmetric_task_has_trials_but_neither_probes_nor_primary_groups(parse, raw):
    expansion = expand(parse(raw), where="sweep.yaml")
    assert {trial.task for trial in expansion.trials} == {"sts"}
    assert expansion.probes == ()
    assert expansion.primary_groups == ()
    assert {e.spec.data.entry.measures for e in expansion.evaluations} == {("Spearman",)}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("qnorm", "it divides by one text's norm alone"),
        ("dnorm", "it divides by one text's norm alone"),
        ("learnable", "its trained exponents may come apart"),
    ],
)
def test_an_asymmetric_similarity_is_refused_unless_allowed(parse, raw, refused, name, reason):
    raw["axes"]["similarity"] = ["cosine", name]
    message = refused(raw)
    assert f"sweep.yaml: axes.similarity: task 'sts' needs sim(a, b) = sim(b, a), and '{name}'" in message
    assert reason in message
    assert "cosine or dot or half" in message
    assert "allow_asymmetric: true" in message
    assert message.count("\n") == 0
    raw["allow_asymmetric"] = True
    assert {t.similarity.name for t in expand(parse(raw), where="x").trials if t.similarity} == {"cosine", name}


def test_an_asymmetric_similarity_of_an_include_block_is_named_there(raw, refused):
    raw["include"] = [{"similarity": "qnorm"}]
    assert "sweep.yaml: include[0].similarity:" in refused(raw)


def test_data_of_the_other_task_is_refused_with_what_would_fit(raw, refused):
    raw["axes"]["training_data"] = ["stsb", "attack"]
    message = refused(raw)
    assert "axes.training_data: data set 'attack' holds queries with relevant documents" in message
    assert "task: contrastive" in message
    assert "all_nli, stsb" in message
    raw["axes"] |= {"task": "contrastive", "training_data": "stsb"}
    message = refused(raw)
    assert "data set 'stsb' holds scored pairs of texts, and task 'contrastive' cannot use them" in message
    assert re.search("task: sts, or take other data: .*attack", message)


def test_validation_data_must_be_of_the_task_too(raw, refused):
    raw["validation"] = {"data": "attack/dev", "every_steps": 5}
    assert "validation.data: data set 'attack' holds queries" in refused(raw)


@pytest.mark.parametrize(
    ("block", "changes", "message"),
    [
        ("axes", {"family": {"name": "minilm", "towers": "separate"}}, "two towers embed a text differently"),
        ("axes", {"scale": "fixed(20)"}, re.escape("write fixed(1)")),
        ("axes", {"scale": "matched"}, re.escape("write matched(1)")),
        (
            "axes",
            {"hyperparameters": {"hard_negatives": [1]}},
            r"axes\.hyperparameters\.hard_negatives: .*no negatives",
        ),
        ("training", {"hard_negatives": 1}, r"training\.hard_negatives: .*no negatives"),
        ("training", {"loss_directions": "both"}, r"training\.loss_directions: .*squared error"),
    ],
)
def test_what_has_no_meaning_for_scored_pairs_is_refused(raw, refused, block, changes, message):
    raw[block] |= changes
    assert re.search(message, refused(raw))


def test_a_group_is_of_one_kind_and_primary_groups_are_of_retrieval(parse, raw, refused):
    raw["evaluation"] = {"groups": {"mixed": ["stsb", "attack"]}}
    assert "evaluation.groups.mixed: scored pairs and retrieval collections have no common mean" in refused(raw)
    raw["evaluation"] = {"groups": {"sts": "stsb", "in_domain": "attack"}, "primary_groups": ["sts"]}
    assert "evaluation.primary_groups: 'sts' holds scored pairs" in refused(raw)
    del raw["evaluation"]["primary_groups"]
    assert expand(parse(raw), where="x").primary_groups == ("in_domain",)
