"""Evaluation tiers of a sweep file: who is evaluated on a pool, and who contributes to it."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError
from search_spaces.specs import EvaluationSpec, PoolSettings, from_json, to_json


def expansion_of(parse, raw, **evaluation):
    raw["evaluation"] |= evaluation
    return expand(parse(raw), where="sweep.yaml")


def problems_of(parse, raw, **evaluation):
    with pytest.raises(InputError) as raised:
        expansion_of(parse, raw, **evaluation)
    return [(problem.key, problem.message) for problem in raised.value.problems]


def test_without_a_word_every_corpus_is_searched_whole(parse, raw):
    assert {(e.spec.tier, e.spec.pool) for e in expansion_of(parse, raw).evaluations} == {("full", None)}


def test_every_starting_encoder_contributes_once(parse, raw):
    raw["axes"]["family"] = ["minilm", {"name": "smollm2", "layers": 2}]
    raw["missing_checkpoints"] = "leave_out"
    expansion = expansion_of(parse, raw, tier="pool", pool={"bm25_top": 7})
    untrained = [trial.title for trial in expansion.trials if trial.kind == "untrained"]
    for evaluation in expansion.evaluations:
        pool = evaluation.spec.pool
        assert evaluation.spec.tier == "pool"
        assert pool.settings == PoolSettings(bm25_top=7)
        titles = [encoder.title for encoder in pool.encoders]
        assert [title.replace("/untrained", "") for title in untrained] == titles
        assert titles == ["minilm/finetune", "minilm/random/s0", "minilm/random/s1", "smollm2-2l/random/s0",
                          "smollm2-2l/random/s1"]  # fmt: skip
        assert pool.execution == expansion.trials[0].execution
        assert from_json(EvaluationSpec, to_json(evaluation.spec)) == evaluation.spec


def test_nobody_contributes_where_no_encoder_is_asked(parse, raw):
    pool = {"per_similarity_top": 0, "longest": 0}
    assert {e.spec.pool.encoders for e in expansion_of(parse, raw, tier="pool", pool=pool).evaluations} == {()}


def test_one_tier_for_each_group_and_a_data_set_may_have_both(parse, raw):
    groups = {"in_domain": "attack", "both": ["attack", "pydoc_small"]}
    found = expansion_of(parse, raw, groups=groups, tier={"both": "pool"}).evaluations
    assert [(e.spec.data.name, e.spec.tier, e.groups) for e in found] == [
        ("attack", "full", ("in_domain",)),
        ("attack", "pool", ("both",)),
        ("pydoc_small", "pool", ("both",)),
    ]


def test_scored_pairs_have_no_pool(parse, raw):
    groups = {"in_domain": "attack", "pairs": "stsb"}
    found = expansion_of(parse, raw, groups=groups, tier="pool").evaluations
    assert {e.spec.data.name: e.spec.tier for e in found} == {"attack": "pool", "stsb": "full"}
    [(key, message)] = problems_of(parse, raw, groups=groups, tier={"pairs": "pool"})
    assert key == "evaluation.tier.pairs"
    assert "scored pairs have no corpus" in message
    [(key, _)] = problems_of(parse, raw, groups={"pairs": "stsb"}, tier="pool")
    assert key == "evaluation.tier"


@pytest.mark.parametrize(
    ("evaluation", "key", "said"),
    [
        ({"pool": {"random": 3}}, "evaluation.pool", "no data set is evaluated on a pool"),
        ({"tier": "pool", "pool": {"random": -1}}, "evaluation.pool.random", "greater than or equal to 0"),
        ({"tier": "pool", "pool": {"randm": 3}}, "evaluation.pool.randm", "random"),
        ({"tier": {"in_doman": "pool"}}, "evaluation.tier", "did you mean 'in_domain'?"),
        ({"tier": "pol"}, "evaluation.tier", "full"),
    ],
)
def test_what_says_nothing_is_refused(parse, raw, evaluation, key, said):
    problems = problems_of(parse, raw, **evaluation)
    assert any(found.startswith(key) and said in message for found, message in problems), problems
