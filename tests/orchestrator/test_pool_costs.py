"""What `plan` says that pools take."""

from dataclasses import replace

import pytest

from orchestrator.costs import costs
from orchestrator.only import parse_only
from orchestrator.plan import make_plan
from orchestrator.pool_costs import building, num_searched_at_most
from orchestrator.resolve import resolve, survey

POOL = {"bm25_top": 1, "per_similarity_top": 1, "longest": 2, "random": 4}


@pytest.fixture
def plan_of(make_sweep):
    def plan(name="tiny", **evaluation):
        sweep = make_sweep(name, axes={"init_regime": ["finetune", "random"]}, evaluation=evaluation)
        return make_plan(resolve(sweep.file), None)

    return plan


def test_a_pool_is_never_taken_for_larger_than_its_corpus_or_its_sources(plan_of):
    [evaluation] = plan_of(tier="pool", pool=POOL).evaluations
    # 5 queries: one document of BM25, and one of each of three different rankings of two encoders.
    assert num_searched_at_most(evaluation.spec, 10**6, 5) == 5 * (1 + 3 * 2) + 2 * 2 + 4
    assert num_searched_at_most(evaluation.spec, 20, 5) == 20
    assert num_searched_at_most(evaluation.spec.whole, 10**6, 5) == 10**6


def test_the_corpus_is_read_by_each_starting_encoder_and_trials_read_the_pool(plan_of):
    pooled, whole = plan_of(tier="pool", pool=POOL | {"per_similarity_top": 0}), plan_of("whole")
    read = list(building(pooled))
    assert [trial.title for trial, _ in read] == ["minilm-1l/finetune/untrained", "minilm-1l/random/untrained/s0"]
    assert all([e.tier for e in evaluations] == ["full"] for _, evaluations in read)
    assert not list(building(whole))
    assert not list(building(replace(pooled, pools=tuple(replace(p, built=True) for p in pooled.pools))))
    found, other = costs(pooled, None), costs(whole, None)
    assert found.at_most
    # 48 documents in 6 trials, or in 2 passes and then at most 12 + 1 + 4 + 4 of them; queries in all of them.
    assert found.evaluation_tokens < other.evaluation_tokens
    built = costs(replace(pooled, pools=tuple(replace(p, built=True) for p in pooled.pools)), None)
    assert built.evaluation_tokens < found.evaluation_tokens


def test_a_survey_without_weights_has_no_pools_yet(make_sweep):
    family = {"name": "far", "retriever": {"source": f"hf:org/far@{'0' * 40}"}, "pooling": "mean"}
    short = {"max_query_length": 16, "max_document_length": 16}
    sweep = make_sweep(families=[family | short], axes={"family": "far"}, evaluation={"tier": "pool"})
    plan = make_plan(survey(sweep.file), None)
    assert plan.pools == ()
    assert [evaluation.spec.tier for evaluation in plan.evaluations] == ["pool"]


@pytest.mark.parametrize(("tier", "missing"), [("full", []), ("pool", [f"hf:org/far@{'0' * 40}"])])
def test_a_part_of_a_sweep_needs_every_encoder_that_contributes_to_its_pools(make_sweep, tier, missing):
    family = {"name": "far", "retriever": {"source": f"hf:org/far@{'0' * 40}"}, "pooling": "mean"}
    short = {"max_query_length": 16, "max_document_length": 16}
    axes = {"family": [{"name": "minilm", "layers": 1} | short, "far"]}
    sweep = make_sweep(families=[family | short], axes=axes, evaluation={"tier": tier})
    found = survey(sweep.file)
    plan = make_plan(found, None, parse_only("family=minilm", found.expansion))
    assert [lacking.name for lacking in plan.missing.inputs] == missing
