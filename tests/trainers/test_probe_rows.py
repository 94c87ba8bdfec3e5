"""The rows of a probe are what brute force over the same pools gives."""

import math

import numpy as np
import polars as pl
import pytest
from probing import embedded_pools, make_probe, probe_data, run, value

from results.layout import probe_rows
from results.predictions import predictions
from results.rows import provenance_of, read_rows
from results.store import open_store
from search_spaces.identity import probe_id
from trainers.provenance import provenance


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with probe_data(tmp_path_factory.mktemp("probe_data")) as spec:
        yield spec


@pytest.fixture
def spec(data, tiny_bert, make_spec):
    """Nine pools of three, and 13 pairs held out."""
    return make_probe(data, make_spec(tiny_bert))


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
