"""What a probe reads, when it runs, and when it has read enough."""

import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from probing import make_probe, probe_data, run, value

from results.layout import Status, from_bytes, probe_prefix, probe_rows, spec_key, status_key
from results.store import LostLockError, open_store
from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, from_json, to_json
from tests.trainers.text_pairs import pairs_of_texts
from trainers.fisher.candidate_pools import plan_pools
from trainers.fisher.probe import probe, run_probe


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with probe_data(tmp_path_factory.mktemp("probe_data")) as spec:
        yield spec


@pytest.fixture
def spec(data, tiny_bert, make_spec):
    """Nine pools of three, and 13 pairs held out."""
    return make_probe(data, make_spec(tiny_bert))


def test_the_same_spec_gives_the_same_bytes(spec, tmp_path):
    for folder in ("one", "two"):
        run(spec, tmp_path / folder)
    key = probe_rows(probe_id(spec))
    assert open_store(str(tmp_path / "one")).read(key) == open_store(str(tmp_path / "two")).read(key)


def test_random_weights_differ_by_seed_and_share_their_pools(data, tiny_bert, make_spec, tmp_path):
    random = make_spec(tiny_bert, init_regime="random")
    frames = [run(make_probe(data, random, seed=seed), tmp_path)[1] for seed in (0, 1)]
    kappas = [value(rows, "embedding", "log10_kappa", "qnorm", 8) for rows in frames]
    assert kappas[0] != kappas[1]
    assert [rows["seed"].unique().item() for rows in frames] == [0, 1]


def test_a_finished_probe_is_not_run_again(spec, tiny_bert, tmp_path):
    folder = shutil.copytree(tiny_bert, tmp_path / "weights")
    spec = replace(spec, encoder=replace(spec.encoder, weights=replace(spec.encoder.weights, source=f"path:{folder}")))
    first, _ = run(spec, tmp_path / "sweep")
    shutil.rmtree(folder)
    assert run(spec, tmp_path / "sweep")[0] == first
    store = open_store(str(tmp_path / "sweep"))
    assert from_json(ProbeSpec, store.read(spec_key(probe_prefix(probe_id(spec))))) == spec


def test_a_failure_is_recorded_and_the_next_attempt_finishes(spec, tiny_bert, tmp_path):
    absent = replace(spec.encoder.weights, source=f"path:{tmp_path / 'weights'}")
    spec = replace(spec, encoder=replace(spec.encoder, weights=absent))
    status, rows = run(spec, tmp_path / "sweep")
    assert (status.state, rows) == ("failed", None)
    assert str(tmp_path / "weights") in status.reason
    assert "Traceback" in status.error
    stored = open_store(str(tmp_path / "sweep")).read(status_key(probe_prefix(probe_id(spec))))
    assert from_bytes(Status, stored) == status
    shutil.copytree(tiny_bert, tmp_path / "weights")
    status, _ = run(spec, tmp_path / "sweep")
    assert (status.state, status.attempt, status.reason, status.error) == ("finished", 2, None, None)


def test_rows_without_a_status_are_a_finished_probe(spec, tmp_path):
    """As after a kill between the two writes."""
    run(spec, tmp_path)
    open_store(str(tmp_path)).delete(status_key(probe_prefix(probe_id(spec))))
    assert run(spec, tmp_path)[0].state == "finished"


def test_who_lost_the_lock_writes_nothing(spec, tmp_path):
    def verify():
        raise LostLockError("another driver owns this sweep")

    store = open_store(str(tmp_path))
    with pytest.raises(LostLockError):
        run_probe(spec, store, verify=verify)
    assert store.list("probes") == []


# Pools

TEXT_PAIRS = [(f"query {i}", f"document {i % 7}") for i in range(20)] + [("query 3", "document 5")]


def texts_of(pairs, plan):
    return [
        [(pairs.query_texts[pairs.query_index[i]], pairs.document_texts[pairs.document_index[i]]) for i in pool]
        for pool in plan.pool_PC
    ]


def test_pools_are_decided_by_content():
    pairs, turned = pairs_of_texts(TEXT_PAIRS), pairs_of_texts(TEXT_PAIRS[::-1])
    plan = plan_pools(pairs, num_queries=100, candidates_per_query=3)
    assert plan.pool_PC.shape == (4, 3)
    assert len(plan.held_out_S) == 6
    again = plan_pools(turned, num_queries=100, candidates_per_query=3)
    assert texts_of(pairs, plan) == texts_of(turned, again)
    everything = np.concatenate([plan.pool_PC.ravel(), plan.held_out_S])
    assert len(set(pairs.query_index[everything].tolist())) == 18
    queries = [query for pool in texts_of(pairs, plan) for query, _ in pool]
    assert queries != sorted(queries)
    fewer = plan_pools(pairs, num_queries=8, candidates_per_query=3)
    np.testing.assert_array_equal(fewer.pool_PC, plan.pool_PC[:2])
    np.testing.assert_array_equal(fewer.held_out_S, plan.held_out_S)


def test_too_few_queries_for_one_pool_are_refused():
    pairs = pairs_of_texts(TEXT_PAIRS)
    with pytest.raises(
        ValueError, match=r"candidates_per_query is 15.* has 20 different queries, of which 6 are held out"
    ):
        plan_pools(pairs, num_queries=100, candidates_per_query=15)


class Clock:
    """Each look at it takes a second."""

    def __init__(self, step_s=1.0):
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self):
        self.now_s += self.step_s
        return self.now_s


def test_a_time_budget_ends_reading_and_the_rows_say_how_much_was_read(data, tiny_bert, make_spec):
    spec = make_probe(data, make_spec(tiny_bert), time_budget_s=4.5)
    short, long = (pl.DataFrame(probe(spec, clock=Clock(step)), infer_schema_length=None) for step in (1.0, 1e-3))
    assert value(long, "pools", "num_queries") == 27
    assert value(short, "pools", "num_queries") < 27
    assert value(short, "pools", "num_queries_planned") == 27
    # what was read in parts says what is read at once
    whole = pl.DataFrame(probe(replace(spec, time_budget_s=None)), infer_schema_length=None)
    for block, rank in (("embedding", 8), ("gamma", None)):
        expected = value(whole, block, "log10_kappa", "qnorm-dnorm", rank)
        assert value(long, block, "log10_kappa", "qnorm-dnorm", rank) == pytest.approx(expected, abs=1e-3)
    part = pl.DataFrame(
        probe(replace(spec, time_budget_s=None, num_queries=int(value(short, "pools", "num_queries")))),
        infer_schema_length=None,
    )
    assert value(short, "embedding", "trace", "qnorm", 8) == pytest.approx(
        value(part, "embedding", "trace", "qnorm", 8), rel=1e-4
    )


def test_reading_ends_where_intervals_are_narrow(data, tiny_bert, make_spec, monkeypatch):
    monkeypatch.setattr("trainers.fisher.estimates.MIN_POOLS", 2)
    spec = make_probe(data, make_spec(tiny_bert), time_budget_s=1e6)

    def num_read(goal):
        monkeypatch.setattr("trainers.fisher.estimates.INTERVAL_GOAL", goal)
        return value(pl.DataFrame(probe(spec), infer_schema_length=None), "pools", "num_queries")

    # One pool has no interval, nor have two, whose F is singular at r = 16; nine is all there is.
    assert (num_read(1e3), num_read(0.0)) == (12, 27)


def test_whether_a_time_budget_is_set_is_part_of_the_identity(spec):
    changes = [
        {"time_budget_s": 60.0},
        {"empirical": True},
        {"blocks": ("embedding",)},
        {"head_queries": 64},
        {"weights_queries": 32},
        {"weights_layers": 1},
    ]
    ids = {probe_id(spec), *(probe_id(replace(spec, **change)) for change in changes)}
    assert len(ids) == 1 + len(changes)
    assert all(from_json(ProbeSpec, to_json(replace(spec, **change))) == replace(spec, **change) for change in changes)
