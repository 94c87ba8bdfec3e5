"""What probes and pilots cost in a plan: sums by hand."""

from dataclasses import replace

import pytest

from orchestrator.costs import costs
from orchestrator.plan import make_plan
from orchestrator.probe_costs import probe_operations
from orchestrator.resolve import resolve
from orchestrator.text_lengths import documents_of, queries_of
from search_spaces.catalogue.model_sizes import ModelSize
from tests.results.builders import probe as probe_spec
from trainers.fisher import head, space, subspace, weights
from trainers.weights.model_size import model_size

SIZE = ModelSize(num_layers=6, parameters_per_layer=1_000_000, other_parameters=4_000_000, hidden_size=100)


@pytest.fixture
def plan(make_sweep):
    def make(**blocks):
        return make_plan(resolve(make_sweep(**blocks).file), None)

    return make


def operations(**changes):
    probe = replace(probe_spec(), num_queries=1024, candidates_per_query=64, **changes)
    return probe_operations(probe, SIZE, query_tokens=10.0, document_tokens=30.0)


def test_a_probe_is_a_forward_pass_and_closed_forms():
    found = operations()
    # Three of the layers; 256 pairs are held out, and 256 documents irrelevant.
    assert found["texts"] == 2 * 3_000_000 * ((1024 + 256) * 40 + 256 * 30)
    # Float64 twice, two sides, two blocks, 2 R^2 for each pair.
    assert found["embedding"] == 2 * 2 * 2 * (1024 * 64) * 2 * 64**2
    assert found["space"] == 2 * 2 * 2 * (2 * 1024 * 100**2 + 9 * 2 * 100**3)
    assert set(found) == {"texts", "embedding", "space"}


def test_head_and_weights_are_counted_where_they_are_asked_for():
    blocks = ("embedding", "gamma", "head", "weights")
    found = operations(blocks=blocks, head_queries=512, weights_queries=64, weights_layers=2)
    product = 2 * (5 * 64 * 100**2 + 2 * 64**2 * 100)
    assert found["head"] == 2 * 2 * 8 * (8 * 32 * product + 64**2 * 2 * 528**2)
    assert found["weights"] == 2 * 8 * 24 * 10 * 2_000_000 * 64 * 40
    every = operations(blocks=blocks, head_queries=512, weights_queries=64)
    assert every["weights"] == pytest.approx(1.5 * found["weights"])  # all three layers
    twice = operations(blocks=blocks, head_queries=512, weights_queries=64, empirical=True)
    assert twice["head"] == 2 * found["head"]
    assert twice["texts"] == found["texts"]


def test_what_is_counted_is_what_is_computed():
    """The sizes of plans are the blocks' own."""
    assert (head.HEAD_VECTORS, head.HEAD_STEPS) == (8, 32)
    assert (weights.WEIGHTS_VECTORS, weights.WEIGHTS_STEPS) == (8, 24)
    assert max(subspace.RANKS) == 64
    assert space.RANK_GROUPS == 8


def hours_of(found):
    return {part.what: part.hours for part in found.parts}


def test_head_and_weights_make_a_plan_dearer_by_their_own_part(plan):
    plain = costs(plan(name="plain"), None)
    dear = costs(plan(name="dear", probe={"blocks": ["embedding", "head", "weights"]}), None)
    parts = {"probes: head", "probes: weights"}
    assert parts & set(hours_of(plain)) == set()
    assert dear.hours - plain.hours == pytest.approx(sum(hours_of(dear)[part] for part in parts))
    assert all(hours_of(dear)[part] > 0 for part in parts)


PILOT = {"steps": 3, "data": "zoo/train", "num_queries": 10, "num_documents": 20}


def test_pilots_are_counted_as_what_they_train_and_rank(plan):
    found = plan(name="pilots", pilot=PILOT)
    plain, piloted = costs(plan(name="plain"), None), costs(found, None)
    assert piloted.steps - plain.steps == 2 * 3
    [spec, _] = [t.spec for t in found.trials if t.spec.kind == "pilot"]
    queries, documents = queries_of(spec.training_data, spec.encoder), documents_of(spec.training_data, spec.encoder)
    pair = queries.mean_tokens + documents.mean_tokens
    assert piloted.training_tokens - plain.training_tokens == 2 * round(3 * 8 * pair)
    scored = round(10 * queries.mean_tokens + 20 * documents.mean_tokens)
    assert piloted.evaluation_tokens - plain.evaluation_tokens == 2 * scored
    layers = model_size(spec.encoder.weights, spec.encoder.weights.content_hash).parameters_in_layers(1)
    operations = 2 * layers * (6 * 3 * 8 * pair + 2 * (10 * queries.mean_tokens + 20 * documents.mean_tokens))
    per_s = 2 * layers * 6 * 6 * 8 * pair / (hours_of(plain)["training"] * 3600)
    assert hours_of(piloted)["pilots"] * 3600 == pytest.approx(operations / per_s)


def test_pilots_keep_no_weights(plan):
    plain, piloted = costs(plan(name="plain"), None), costs(plan(name="pilots", pilot=PILOT), None)
    assert piloted.storage_bytes - piloted.row_bytes == pytest.approx(plain.storage_bytes - plain.row_bytes, abs=2)
    assert piloted.row_bytes > plain.row_bytes
