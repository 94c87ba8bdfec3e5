"""Pilots in what is collected: their rows beside the probes', and no trace of them in any result."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from scipy import stats

from orchestrator.mirror import Mirror
from results.collect import collect
from results.pilots import LEVEL, MIN_QUERIES
from results.predictions import predictions
from results.rendering import FORMATS, export
from results.store import open_store
from results.tables import TABLES, TableOptions
from search_spaces.identity import prefix_id, trial_id
from tests.results.builders import SweepFolder, evaluation, failed, pilot, probe, small_sweep, trained, two_queries

# Predictors, and what all took.
OF_PILOTS = ("fisher_check", "predictions", "fisher_summary", "fisher_tau", "fisher_calls", "cost")
DRAWN = np.random.default_rng(5)
QNORM, DNORM = DRAWN.uniform(0.2, 0.6, 30), DRAWN.uniform(0.1, 0.5, 30)
NORMS = {"qnorm": DRAWN.uniform(1, 2, 30), "dnorm": DRAWN.lognormal(0, 0.8, 30), "dot": DRAWN.uniform(1, 2, 30)}


@pytest.fixture
def folder(tmp_path):
    data = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data)
    for similarity, value in (("qnorm", 0.4), ("dnorm", 0.3)):
        folder.add_trial(trained(similarity), two_queries((0.5, value)))
    folder.add_probe(probe(), {16: 0.2})
    return folder


def collected(folder):
    return collect(folder.store, folder.record())


def piloted(folder, similarities=("qnorm", "dnorm", "dot"), scores=None, **cell):
    scores = scores or {"qnorm": QNORM, "dnorm": DNORM, "dot": DNORM}
    for name in similarities:
        folder.add_pilot(pilot(name, **cell), scores[name], NORMS[name])


def value(rows, block, statistic, similarity=None):
    is_it = (pl.col("block") == block) & (pl.col("statistic") == statistic)
    return rows.filter(is_it & pl.col("similarity").eq_missing(similarity)).row(0, named=True)


def test_the_gain_of_a_pilot_has_the_interval_of_a_paired_t_test(folder):
    piloted(folder)
    rows = collected(folder).probes
    found = value(rows, "pilot", "score", "qnorm-dnorm")
    expected = stats.ttest_rel(QNORM, DNORM).confidence_interval(LEVEL)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["value"] == pytest.approx((QNORM - DNORM).mean())
    assert value(rows, "pilot", "score", "dnorm")["value"] == pytest.approx(DNORM.mean())
    assert value(rows, "pilot", "steps")["value"] == 5


def test_the_ratio_of_variations_is_jackknifed_query_by_query(folder):
    piloted(folder)
    found = value(collected(folder).probes, "pilot_norms", "log10_cv_ratio")

    def ratio(kept):
        return np.log10(stats.variation(NORMS["dnorm"][kept]) / stats.variation(NORMS["dot"][kept]))

    every = np.arange(30)
    pseudo = np.array([30 * ratio(every) - 29 * ratio(every != i) for i in every])
    half = stats.t.ppf((1 + LEVEL) / 2, 29) * stats.sem(pseudo)
    assert found["value"] == pytest.approx(pseudo.mean())
    assert (found["low"], found["high"]) == pytest.approx((pseudo.mean() - half, pseudo.mean() + half))


def test_predictors_read_them_and_the_check_has_a_verdict(folder):
    piloted(folder)
    calls = dict(predictions(collected(folder).probes).select("predictor", "call").iter_rows())
    assert calls["pilot"] == "qnorm"
    assert calls["query_norm_variation"] == "dnorm"
    table = TABLES["fisher_check"].build(collected(folder), TableOptions())
    assert table.holes == ()
    verdicts = dict(table.rows.filter("is_primary").select("predictor", "verdict").iter_rows())
    assert verdicts == {"fisher_condition": "miss", "query_norm_variation": "miss", "pilot": "hit"}


def test_without_pilots_their_predictors_are_not_shown(folder):
    table = TABLES["fisher_check"].build(collected(folder), TableOptions())
    assert table.rows["predictor"].unique().to_list() == ["fisher_condition"]


def test_without_dot_there_is_no_ratio_and_no_row_of_it(folder):
    piloted(folder, ("qnorm", "dnorm"))
    table = TABLES["fisher_check"].build(collected(folder), TableOptions())
    assert set(table.rows["predictor"]) == {"fisher_condition", "pilot"}


def test_a_pilot_that_failed_is_missing_and_a_hole_of_the_check(folder):
    folder.add_pilot(pilot("qnorm"), QNORM)
    folder.add_pilot(pilot("dnorm"), None, status=failed("out of memory"))
    found = collected(folder)
    [missing] = found.missing
    assert (missing.kind, missing.reason) == ("pilot", "failed: out of memory")
    table = TABLES["fisher_check"].build(found, TableOptions())
    assert table.holes == ("pilots of minilm-3l/finetune: its pilots are missing",)
    verdicts = table.rows.filter(pl.col("predictor") == "pilot").select("call", "verdict").unique().rows()
    assert verdicts == [(None, None)]


def test_few_queries_give_no_interval_and_no_call(folder):
    few = slice(MIN_QUERIES - 1)
    piloted(folder, ("qnorm", "dnorm"), {"qnorm": QNORM[few] + 1, "dnorm": DNORM[few]})
    calls = dict(predictions(collected(folder).probes).select("predictor", "call").iter_rows())
    assert calls["pilot"] == "undecided"


@pytest.mark.parametrize("num", [1, 2, MIN_QUERIES - 1])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_handful_of_queries_gives_values_and_no_interval(folder, num):
    for name in ("qnorm", "dnorm", "dot"):
        folder.add_pilot(pilot(name), QNORM[:num] if name == "qnorm" else DNORM[:num], NORMS[name][:num])
    rows = collected(folder).probes
    found = value(rows, "pilot", "score", "qnorm-dnorm")
    assert (found["value"], found["low"]) == (pytest.approx((QNORM - DNORM)[:num].mean()), None)
    calls = dict(predictions(rows).select("predictor", "call").iter_rows())
    assert (calls["pilot"], calls["query_norm_variation"]) == ("undecided", "undecided")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_query_norms_that_do_not_vary_leave_the_predictor_undecided_and_no_hole(folder):
    """An encoder that ends in a normalisation has them: a further run would bring no ratio either."""
    rounded = 1 + 1e-7 * NORMS["dot"]
    for name in ("qnorm", "dnorm", "dot"):
        folder.add_pilot(pilot(name), QNORM, rounded if name == "dot" else NORMS[name])
    found = predictions(collected(folder).probes).filter(pl.col("predictor") == "query_norm_variation")
    assert found["call"].to_list() == ["undecided"]
    assert "do not vary" in found["reason"][0]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_pilots_are_compared_on_the_queries_that_both_have(folder):
    lost = np.where(np.arange(30) == 3, np.nan, QNORM)
    folder.add_pilot(pilot("qnorm"), lost, NORMS["qnorm"])
    folder.add_pilot(pilot("dnorm"), DNORM[:25], NORMS["dnorm"][:25])
    found = value(collected(folder).probes, "pilot", "score", "qnorm-dnorm")
    assert found["value"] == pytest.approx(np.delete((QNORM - DNORM)[:25], 3).mean())
    assert value(collected(folder).probes, "pilot", "num_queries")["value"] == 24


def test_a_pilot_of_random_weights_is_read_beside_the_probe_of_its_seed(folder):
    for seed in (0, 1):
        folder.add_probe(probe(init_regime="random", seed=seed), {16: 0.2})
    sides = {"qnorm": DNORM, "dnorm": QNORM}
    piloted(folder, ("qnorm", "dnorm"), sides, init_regime="random", seed=1)
    found = predictions(collected(folder).probes).filter(pl.col("predictor") == "pilot")
    calls = {(row["init_regime"], row["seed"]): row["call"] for row in found.iter_rows(named=True)}
    assert calls == {("finetune", None): None, ("random", 0): None, ("random", 1): "dnorm"}


def test_a_pilot_is_no_trial_of_as_many_steps():
    short = dataclasses.replace(pilot("qnorm"), kind="train", validation=None)
    assert trial_id(pilot("qnorm")) != trial_id(short)
    assert prefix_id(short) is not None
    assert prefix_id(pilot("qnorm")) is None


@pytest.fixture(scope="module")
def with_pilots(tmp_path_factory):
    """The small sweep with pilots of every cell, far better and worse than any trial."""
    folder = small_sweep(open_store(str(tmp_path_factory.mktemp("piloted"))))
    for cell in ({}, {"init_regime": "random"}, {"family": "smollm2", "layers": 2, "init_regime": "from_base"}):
        piloted(folder, scores={"qnorm": QNORM + 0.4, "dnorm": DNORM - 0.1, "dot": DNORM}, **cell)
    return collected(folder)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in OF_PILOTS])
def test_no_table_of_results_knows_of_pilots(with_pilots, small, name):
    """Each format is the same to the last byte."""
    assert with_pilots.probes.height > small.probes.height
    for output_format in FORMATS:
        tables = [TABLES[name].build(found, TableOptions()) for found in (small, with_pilots)]
        one, other = (export(table, output_format, allow_missing=True) for table in tables)
        assert one == other


def test_no_pilot_is_the_best_of_a_cell_or_registered(folder):
    before = Mirror(folder.store, folder.record()).best()
    piloted(folder)
    mirror = Mirror(folder.store, folder.record())
    assert mirror.best() == before
    assert before
    keys = {planned.trial_id for planned in folder.pilots}
    outlines = [outline for outline in mirror.outlines() if outline.labels.key in keys]
    assert {outline.labels.tags["kind"] for outline in outlines} == {"pilot"}
    assert {outline.checkpoint_hash for outline in outlines} == {None}
    assert len(outlines) == 3


def test_collected_trials_are_the_sweeps_alone(folder):
    before = collected(folder)
    piloted(folder)
    after = collected(folder)
    for name in ("trials", "expected", "scored", "data_set_scores", "per_query"):
        assert getattr(after, name).equals(getattr(before, name)), name
    assert after.missing == before.missing == ()


def test_the_cost_table_counts_pilots_as_a_kind_of_their_own(folder):
    before = TABLES["cost"].build(collected(folder), TableOptions()).rows
    piloted(folder)
    after = TABLES["cost"].build(collected(folder), TableOptions()).rows
    assert after.filter(pl.col("kind") != "pilot").equals(before)
    [row] = after.filter(pl.col("kind") == "pilot").iter_rows(named=True)
    assert (row["num_trials"], row["run_wall_s"]) == (3, 180.0)
