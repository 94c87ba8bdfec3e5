import math
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tiny_trials import data_spec, with_hash, write_collection

from results.layout import Status, from_bytes, probe_prefix, probe_rows, spec_key, status_key
from results.predictions import predictions
from results.rows import provenance_of, read_rows
from results.store import LostLockError, open_store
from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, ScaleSpec, from_json, to_json
from tests.trainers.text_pairs import pairs_of_texts
from trainers.data_sets import load
from trainers.encoders.encode import encode
from trainers.fisher.candidate_pools import plan_pools
from trainers.fisher.probe import probe, run_probe
from trainers.init_regimes import start_encoder
from trainers.provenance import provenance
from trainers.training.batches import false_negatives
from trainers.training.pairs import training_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probe_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        yield data_spec(write_collection(folder / "collection"), "train")


@pytest.fixture
def spec(data, tiny_bert, make_spec):
    """Nine pools of three, and 13 pairs held out."""
    return make_probe(data, make_spec(tiny_bert))


def make_probe(data, encoder, *, seed=None, num_queries=40, candidates=3, scale=2.0, mode="fixed", **changes):
    return ProbeSpec(
        task="contrastive",
        encoder=with_hash(encoder),
        seed=seed,
        training_data=data,
        scale=ScaleSpec(mode=mode, value=scale),
        num_queries=num_queries,
        candidates_per_query=candidates,
        **changes,
    )


def run(spec, folder):
    """The status, and the rows as a frame (None where there are none)."""
    store = open_store(str(folder))
    status = run_probe(spec, store, verify=lambda: None)
    key = probe_rows(probe_id(spec))
    return status, pl.from_arrow(read_rows(store, key, "probes")) if store.exists(key) else None


def value(rows, block, statistic, similarity=None, rank=None, at=None):
    found = rows.filter(
        pl.col("at").eq_missing(at)
        & (pl.col("block") == block)
        & (pl.col("statistic") == statistic)
        & pl.col("similarity").eq_missing(similarity)
        & pl.col("rank").eq_missing(rank)
    )
    return found["value"].item()


def embedded_pools(spec):
    """Each pool's query and document vectors, its documents' numbers and its mask; then vectors of what is held out."""
    encoder = start_encoder(spec.encoder, spec.seed)
    pairs = training_pairs(load(spec.training_data.entry), "train", relevance_threshold=1)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=spec.candidates_per_query)

    def vectors(indices):
        queries = [encode(encoder, [pairs.query_texts[pairs.query_index[i]]], "query")[0] for i in indices]
        documents = [encode(encoder, [pairs.document_texts[pairs.document_index[i]]], "document")[0] for i in indices]
        return np.float64(queries), np.float64(documents)

    pools = [(*vectors(pool), pairs.document_index[pool], false_negatives(pairs, pool)) for pool in plan.pool_PC]
    queries, documents = vectors(plan.held_out_S)
    return pools, np.concatenate([queries, np.unique(documents, axis=0)])


def brute_fisher(pools, gamma_q, gamma_d, scale):
    """Block `embedding` in all of H, pair by pair in numpy, and the mean loss."""
    fisher, losses = [], []
    for queries, documents, numbers, masked in pools:
        for i, q in enumerate(queries):
            n_q, n_d = np.linalg.norm(q), np.linalg.norm(documents, axis=1)
            logits = scale * documents @ q / (n_q**gamma_q * n_d**gamma_d)
            weights = np.where(masked[i], 0, np.exp(logits - logits[~masked[i]].max()))
            p = weights / weights.sum()
            losses.append(-math.log(p[i]))
            by_query = [
                scale * (d / n**gamma_d - gamma_q * q * (q @ d) / n_q**2 / n**gamma_d) / n_q**gamma_q
                for d, n in zip(documents, n_d, strict=True)
            ]
            total = np.cov(np.array(by_query).T, aweights=p, bias=True)
            for number in set(numbers):
                slots = np.flatnonzero(numbers == number)
                d, n, share = documents[slots[0]], n_d[slots[0]], p[slots].sum()
                g = scale * (q - gamma_d * d * (q @ d) / n**2) / n_q**gamma_q / n**gamma_d
                total = total + share * (1 - share) * np.outer(g, g)
            fisher.append(total)
    return np.mean(fisher, axis=0), np.mean(losses)


def test_rows_say_what_was_probed_and_what_made_them(spec, tmp_path):
    _, rows = run(spec, tmp_path)
    data = spec.training_data
    named = rows.select("task", "training_data", "training_data_hash", "num_pairs").unique().rows()
    assert named == [("contrastive", data.name, data.content_hash, data.num_pairs)]
    table = read_rows(open_store(str(tmp_path)), probe_rows(probe_id(spec)), "probes")
    assert provenance_of(table) == provenance().to_json()
    about = {
        "embedding_query",
        "embedding_document",
        "embedding",
        "gamma",
        "softmax",
        "pools",
        "subspace",
        "norms",
        "space",
    }
    assert set(rows["block"]) == about


def test_rows_hold_the_condition_numbers_of_each_similarity(spec, tmp_path):
    status, rows = run(spec, tmp_path)
    assert (status.state, status.error) == ("finished", None)
    pools, held_out = embedded_pools(spec)
    directions = np.linalg.svd(held_out - held_out.mean(axis=0))[2]
    for similarity, gammas in {"qnorm": (1, 0), "dnorm": (0, 1)}.items():
        fisher, loss = brute_fisher(pools, *gammas, spec.scale.value)
        assert value(rows, "softmax", "loss", similarity) == pytest.approx(loss, rel=1e-5)
        for rank in (8, 16):
            values = np.linalg.eigvalsh(directions[:rank] @ fisher @ directions[:rank].T)
            expected = {
                "lambda_max": values[-1],
                "lambda_min": values[0],
                "trace": values.sum(),
                "log10_kappa_uncorrected": math.log10(values[-1] / values[0]),
            }
            found = {name: value(rows, "embedding", name, similarity, rank) for name in expected}
            assert found == pytest.approx(expected, rel=1e-3)


def test_rows_hold_intervals_norms_and_what_was_used(spec, tmp_path):
    _, rows = run(spec, tmp_path)
    difference = rows.filter((pl.col("statistic") == "log10_kappa") & (pl.col("similarity") == "qnorm-dnorm"))
    # three embedding blocks at each rank, and the exponents in no subspace
    assert difference.height == 3 * rows.filter(pl.col("statistic") == "explained_variance").height + 1
    assert (difference["low"] < difference["value"]).all()
    assert (difference["value"] < difference["high"]).all()
    assert (difference["level"] == 0.9).all()
    used = [value(rows, "pools", name) for name in ("num_pools", "num_queries", "num_held_out")]
    assert used == [9, 27, 13]
    norms = np.linalg.norm([q for queries, *_ in embedded_pools(spec)[0] for q in queries], axis=1)
    assert value(rows, "norms", "query_norm_mean") == pytest.approx(norms.mean(), rel=1e-5)
    assert value(rows, "norms", "query_norm_cv") == pytest.approx(norms.std() / norms.mean(), rel=1e-4)


def test_the_fisher_check_reads_the_rows(spec, tmp_path):
    _, rows = run(spec, tmp_path)
    calls = {found["predictor"]: found for found in predictions(rows).to_dicts()}
    for name in ("fisher_condition", "effective_rank"):
        assert calls[name]["call"] in ("qnorm", "dnorm", "undecided")
        assert calls[name]["low"] is not None
    assert calls["cohen_d"]["call"] == "undecided"  # every document answers a training query
    assert calls["pilot"]["call"] is None


def brute_softmax(pools, gamma_q, gamma_d, scale):
    """Deviation of logits, perplexity and share of saturated queries, query by query in numpy."""
    deviations, perplexities, saturated = [], [], []
    for queries, documents, _, masked in pools:
        for i, q in enumerate(queries):
            norms = np.linalg.norm(q) ** gamma_q * np.linalg.norm(documents, axis=1) ** gamma_d
            logits = (scale * documents @ q / norms)[~masked[i]]
            p = np.exp(logits) / np.exp(logits).sum()
            deviations.append(np.std(logits))
            perplexities.append(np.prod(p**-p))
            saturated.append(p.max() > 0.99)
    return {n: np.mean(v) for n, v in zip(SOFTMAX, (deviations, perplexities, saturated), strict=True)}


SOFTMAX = ("logit_std", "perplexity", "saturated_share")


@pytest.mark.parametrize("mode", ["fixed", "matched"])
def test_rows_hold_how_sharp_each_softmax_is(data, tiny_bert, make_spec, tmp_path, mode):
    spec = make_probe(data, make_spec(tiny_bert), mode=mode, scale=8.0)
    _, rows = run(spec, tmp_path)
    assert rows["scale_mode"].unique().to_list() == [mode]
    pools, _ = embedded_pools(spec)
    # Each text counts once in the mean of norms.
    queries, documents = (np.unique(np.concatenate([pool[i] for pool in pools]), axis=0) for i in (0, 1))
    for similarity, gammas, free in (("qnorm", (1, 0), documents), ("dnorm", (0, 1), queries)):
        divisor = np.linalg.norm(free, axis=1).mean() if mode == "matched" else 1.0
        expected = brute_softmax(pools, *gammas, 8.0 / divisor)
        assert {n: value(rows, "softmax", n, similarity) for n in SOFTMAX} == pytest.approx(expected, rel=1e-4)
        stored = rows.filter((pl.col("statistic") == "scale_divisor") & (pl.col("similarity") == similarity))
        assert stored["value"].to_list() == ([] if mode == "fixed" else [pytest.approx(divisor, rel=1e-5)])


def test_few_pools_give_values_and_no_interval(data, tiny_bert, make_spec, tmp_path):
    _, rows = run(make_probe(data, make_spec(tiny_bert), num_queries=20), tmp_path)
    assert value(rows, "pools", "num_queries") == 18
    assert rows["low"].null_count() == rows.height
    calls = dict(predictions(rows).select("predictor", "call").iter_rows())
    assert calls["fisher_condition"] == calls["effective_rank"] == "undecided"


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


def test_rows_hold_the_information_on_the_exponents(spec, tmp_path):
    """Pair by pair in numpy, with norms over their geometric means."""
    _, rows = run(spec, tmp_path)
    pools, _ = embedded_pools(spec)
    sides = [np.unique(np.concatenate([pool[i] for pool in pools]), axis=0) for i in (0, 1)]
    log_q, log_d = (np.log(np.linalg.norm(side, axis=1)).mean() for side in sides)
    for similarity, gammas in {"qnorm": (1, 0), "dnorm": (0, 1)}.items():
        fisher = []
        for queries, documents, _, masked in pools:
            for i, q in enumerate(queries):
                n_q, n_d = np.linalg.norm(q), np.linalg.norm(documents, axis=1)
                logits = (spec.scale.value * documents @ q / (n_q ** gammas[0] * n_d ** gammas[1]))[~masked[i]]
                p = np.exp(logits) / np.exp(logits).sum()
                by_q, by_d = -(np.log(n_q) - log_q) * logits, -(np.log(n_d)[~masked[i]] - log_d) * logits
                fisher.append(np.cov([by_q, by_d], aweights=p, bias=True))
        values = np.linalg.eigvalsh(np.mean(fisher, axis=0))
        # The tiny model's norms differ by some 1e-4 of themselves, of which float32 embeddings leave three digits.
        assert value(rows, "gamma", "lambda_max", similarity) == pytest.approx(values[1], rel=1e-2)
        expected = math.log10(values[1] / values[0])
        assert value(rows, "gamma", "log10_kappa_uncorrected", similarity) == pytest.approx(expected, abs=5e-3)
        assert value(rows, "gamma", "kappa_uncorrected", similarity) == pytest.approx(10**expected, rel=1.5e-2)


def curve(rows, block, statistic, similarity, rank=None):
    found = rows.filter(
        (pl.col("block") == block)
        & (pl.col("statistic") == statistic)
        & (pl.col("similarity") == similarity)
        & pl.col("rank").eq_missing(rank)
    )
    return dict(found.select("at", "value").rows())


def test_rows_hold_the_whole_spectrum(spec, tmp_path):
    _, rows = run(spec, tmp_path)
    for rank in (8, 16):
        found = curve(rows, "embedding", "eigenvalue", "qnorm", rank)
        assert list(found) == list(range(1, rank + 1))
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert sum(found.values()) == pytest.approx(value(rows, "embedding", "trace", "qnorm", rank))
        assert found[rank] == value(rows, "embedding", "lambda_min", "qnorm", rank)


def test_rows_say_how_kappa_moves_with_the_ridge_and_with_the_rank(spec, tmp_path):
    """A kappa like 1 / ridge or like the number of directions that are kept would say nothing of the data."""
    _, rows = run(spec, tmp_path)
    for side in ("qnorm", "dnorm", "qnorm-dnorm"):
        found = curve(rows, "embedding", "log10_kappa_of_ridge", side, 8)
        assert list(found) == [1e-12, 1e-10, 1e-8, 1e-6, 1e-4]
        assert abs(found[1e-12] - found[1e-6]) < 0.01
        assert found[1e-8] == value(rows, "embedding", "log10_kappa", side, 8)
    assert curve(rows, "gamma", "log10_kappa_of_ridge", "qnorm")


def test_the_convergence_curve_ends_at_the_estimate_and_says_how_many_are_enough(spec, tmp_path):
    _, rows = run(spec, tmp_path)
    found = curve(rows, "embedding", "log10_kappa_of_queries", "qnorm-dnorm", 8)
    assert list(found) == [3, 6, 12, 27]  # pools of three: an eighth, a quarter, a half and all of nine
    assert found[27] == value(rows, "embedding", "log10_kappa", "qnorm-dnorm", 8)
    ends = rows.filter(
        (pl.col("block") == "embedding")
        & (pl.col("statistic") == "log10_kappa")
        & (pl.col("similarity") == "qnorm-dnorm")
    )
    goal = value(rows, "pools", "interval_goal")
    widest = ((ends["high"] - ends["low"]) / 2).max()
    assert value(rows, "embedding", "num_queries_needed") == 3 * math.ceil(9 * (widest / goal) ** 2)
    enough = rows.filter((pl.col("block") == "embedding") & (pl.col("statistic") == "num_queries_enough"))
    assert enough.is_empty() == (widest > goal)


def most_trace(rows, block, similarity):
    """The trace, or the upper end of its interval where it is estimated."""
    [row] = rows.filter(block=block, statistic="whole_trace", similarity=similarity).to_dicts()
    return row["value"] if row["high"] is None else row["high"]


def test_every_block_and_its_empirical_side_has_rows(data, tiny_bert, make_spec, tmp_path):
    spec = make_probe(
        data,
        make_spec(tiny_bert),
        blocks=("embedding", "gamma", "head", "weights"),
        empirical=True,
        head_queries=27,
        weights_queries=3,
        weights_layers=1,
    )
    status, rows = run(spec, tmp_path)
    assert status.state == "finished", status.error
    for block in ("head", "weights", "empirical_head", "empirical_weights"):
        for side in ("qnorm", "dnorm"):
            assert value(rows, block, "whole_lambda_max", side) > 0
            assert most_trace(rows, block, side) >= value(rows, block, "whole_lambda_max", side) * 0.99
            assert curve(rows, block, "whole_density", side)
    assert value(rows, "head", "whole_num_queries", "qnorm") == 27
    assert value(rows, "weights", "whole_num_queries", "qnorm") == 3
    # the Gram matrix of 81 gradients gives them all: 81 less one for each query
    values = list(curve(rows, "head", "whole_eigenvalue", "qnorm").values())
    assert sum(v > 1e-9 * values[0] for v in values) <= 54
    assert sum(values) == pytest.approx(value(rows, "head", "whole_trace", "qnorm"))
    assert value(rows, "head", "log10_kappa", "qnorm", 8) is not None
    kappas = rows.filter(pl.col("statistic").str.contains("kappa|lambda_min"))
    assert not kappas["block"].str.contains("weights").any()
    pairs = [(b, f"empirical_{b}") for b in ("embedding", "embedding_query", "embedding_document", "gamma", "head")]
    for block, empirical in pairs:
        rank = None if block == "gamma" else 8
        assert value(rows, block, "trace", "qnorm", rank) != value(rows, empirical, "trace", "qnorm", rank)


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
