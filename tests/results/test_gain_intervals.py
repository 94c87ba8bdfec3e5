"""Intervals of gains in frames: against scipy, statsmodels and the scores that polars averages."""

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.collect import collect
from results.compared import UNLIKE_SEEDS, Comparisons
from results.gain_intervals import gain_intervals, with_intervals
from results.gains import gains
from results.query_scores import query_scores
from results.scores import ROWS_MISSING, MixedMeasuresError, by_data_set
from results.store import open_store
from tests.results.builders import SweepFolder, evaluation, failed, trained, two_queries, untrained, untrained_queries

CORRECTIONS = {"holm": "holm", "benjamini-hochberg": "fdr_bh"}


@pytest.fixture
def folder(tmp_path):
    evaluations = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations)


def comparisons_of(collected, expected=None):
    return Comparisons(collected.query_scores, collected.expected if expected is None else expected)


def cells_of(collected, expected=None, reference="cosine"):
    return comparisons_of(collected, expected).like(reference)


def intervals_of(collected, **options):
    return gain_intervals(cells_of(collected), "cosine", **options)


def values_of(collected, trial_kind="train", **where):
    """The main measure of the rows picked, by query id."""
    rows = collected.per_query.filter(
        pl.col("is_main"), pl.col("kind") == trial_kind, *(pl.col(name) == value for name, value in where.items())
    )
    return rows.unique(["trial_id", "data_set", "query_id"]).sort("query_id")["value"].to_numpy()


def test_arrays_hold_every_query_once_although_a_data_set_stands_in_two_groups(seeded):
    scores = seeded.query_scores
    assert {key.data_set for key in scores} == set(seeded.per_query["data_set"])
    means = seeded.data_set_scores.unique(["trial_id", "score_similarity", "data_set"])
    assert means.height == sum(len(of_data.rows) for of_data in scores.values())
    for row in means.iter_rows(named=True):
        key = next(key for key in scores if key.data_set == row["data_set"])
        found = scores[key].seeds_by_queries([row["trial_id"]], row["score_similarity"])
        assert found.mean() == pytest.approx(row["score"], abs=1e-12)


def test_a_lost_query_or_trial_gives_no_array(folder):
    folder.add_trial(trained("cosine"), lambda *_: [0.5, 0.4])
    short = folder.add_trial(trained("qnorm"), lambda *_: [0.5])
    collected = collect(folder.store, folder.record())
    of_data = next(iter(query_scores(collected.scored, collected.query_rows).values()))
    assert of_data.seeds_by_queries([short], "qnorm") is None
    assert of_data.seeds_by_queries(["unknown"], "qnorm") is None
    assert cells_of(collected)[0].reasons == {"qnorm": ROWS_MISSING}


def test_gains_and_ratios_are_those_of_the_gain_table(seeded):
    rows = with_intervals(gains(seeded.data_set_scores, seeded.expected), intervals_of(seeded))
    with_gain = rows.filter((pl.col("kind") == "train") & (pl.col("similarity") != "cosine"))
    assert with_gain.height == 24
    centre = with_gain.select(pl.mean_horizontal("gain_low", "gain_high")).to_series()
    assert centre.to_list() == pytest.approx(with_gain["gain"].to_list(), abs=1e-12)
    assert with_gain.filter(
        ~pl.col("gain_ratio").is_between("ratio_low", "ratio_high")
        | ((pl.col("gain_low") > 0) != (pl.col("ratio_low") > 0))
    ).is_empty()


def test_one_seed_is_the_paired_t_test_for_these_seeds_only(small):
    frame = intervals_of(small).filter(pl.col("family") == "minilm", pl.col("init_regime") == "finetune")
    for row in frame.filter(pl.col("similarity") != "cosine").iter_rows(named=True):
        where = {"init_regime": "finetune", "group": row["group"]}
        ours, base = (values_of(small, similarity=name, **where) for name in (row["similarity"], "cosine"))
        found = stats.ttest_rel(ours, base)
        low, high = found.confidence_interval(0.95)
        assert row["gain_p"] == pytest.approx(found.pvalue, rel=1e-9)
        assert (row["gain_low"], row["gain_high"]) == (pytest.approx(low), pytest.approx(high))
        assert row["sources"] == "these seeds only"
        assert "one seed" in row["gain_reason"]


def test_three_seeds_are_the_crossed_model_by_hand(seeded):
    """Variance of the mean: V_a + V_b - V_e, each of a crossed table of differences."""
    row = intervals_of(seeded).row(
        by_predicate=(pl.col("family") == "minilm")
        & (pl.col("init_regime") == "finetune")
        & (pl.col("group") == "in_domain")
        & (pl.col("similarity") == "qnorm"),
        named=True,
    )
    by_seed = [
        values_of(seeded, family="minilm", init_regime="finetune", similarity="qnorm", seed=seed, group="in_domain")
        - values_of(seeded, family="minilm", init_regime="finetune", similarity="cosine", seed=seed, group="in_domain")
        for seed in (0, 42, 1337)
    ]
    table = np.array(by_seed)
    num_seeds, num_queries = table.shape
    residual = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    rest = (residual**2).sum() / ((num_seeds - 1) * (num_queries - 1)) / table.size
    seeds, queries = table.mean(1).var(ddof=1) / num_seeds, table.mean(0).var(ddof=1) / num_queries
    assert seeds > rest  # else a component would be cut at 0
    assert queries > rest
    variance = seeds + queries - rest
    df = variance**2 / (
        seeds**2 / (num_seeds - 1) + queries**2 / (num_queries - 1) + rest**2 / ((num_seeds - 1) * (num_queries - 1))
    )
    half = stats.t.ppf(0.975, df) * variance**0.5
    assert (row["gain_low"], row["gain_high"]) == (
        pytest.approx(table.mean() - half, abs=1e-12),
        pytest.approx(table.mean() + half, abs=1e-12),
    )
    assert row["gain_p"] == pytest.approx(2 * stats.t.sf(abs(table.mean()) / variance**0.5, df))
    assert row["sources"] == "seeds and queries"


def test_forums_are_averaged_before_their_group_and_a_data_set_in_two_groups_counts_in_both(seeded):
    rows = gains(seeded.data_set_scores, seeded.expected).filter(
        (pl.col("kind") == "train") & (pl.col("family") == "bert") & (pl.col("similarity") == "qnorm")
    )
    by_group = dict(rows.select("group", "gain").iter_rows())
    where = {"family": "bert", "init_regime": "finetune"}

    def gain(data_set):
        return np.mean(values_of(seeded, similarity="qnorm", data_set=data_set, **where)) - np.mean(
            values_of(seeded, similarity="cosine", data_set=data_set, **where)
        )

    forums = (gain("cqadupstack/android") + gain("cqadupstack/unix")) / 2
    assert by_group["beir"] == pytest.approx((gain("nq") + gain("fiqa") + gain("hotpotqa") + forums) / 4)
    assert by_group["multi_hop"] == pytest.approx((gain("hotpotqa") + gain("musique")) / 2)
    single = gain_intervals(cells_of(seeded, by_data_set(seeded.expected)), "cosine")
    assert single["group"].unique(maintain_order=True).to_list() == [
        *("attack", "nq", "fiqa", "hotpotqa", "cqadupstack", "musique")
    ]
    found = single.filter(
        pl.col("family") == "bert", pl.col("similarity") == "qnorm", pl.col("group") == "cqadupstack"
    ).row(0, named=True)
    assert (found["gain_low"] + found["gain_high"]) / 2 == pytest.approx(forums)


def test_new_data_sets_have_a_wider_interval_than_these(seeded):
    rows = intervals_of(seeded).filter(pl.col("similarity") == "learnable", pl.col("group") == "beir")
    row = rows.row(0, named=True)
    assert row["new_gain_high"] - row["new_gain_low"] > row["gain_high"] - row["gain_low"]
    alone = intervals_of(seeded).filter(pl.col("group") == "in_domain", pl.col("similarity") != "cosine")
    assert set(alone["new_gain_reason"]) == {"one data set in 'in_domain': its variance is unknown"}


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_all_p_of_a_table_are_adjusted_together(seeded, correction):
    frame = intervals_of(seeded, correction=correction).filter(pl.col("gain_p").is_not_null())
    assert frame.height == 24
    wanted = multipletests(frame["gain_p"].to_list(), method=CORRECTIONS[correction])[1]
    assert frame["adjusted_p"].to_list() == pytest.approx(list(wanted), abs=1e-12)


def test_a_ratio_to_a_baseline_near_zero_is_absent_with_the_reason_in_every_row_of_its_cell(folder):
    folder.add_trial(trained("cosine"), lambda *_: [0.006, 0.001, 0.004, 0.009])
    folder.add_trial(trained("qnorm"), lambda *_: [0.106, 0.1, 0.12, 0.109])
    folder.add_trial(untrained(), lambda *_: [0.1, 0.1, 0.1, 0.1])
    collected = collect(folder.store, folder.record())
    rows = with_intervals(gains(collected.data_set_scores, collected.expected), intervals_of(collected))
    assert rows["gain"].null_count() == 0
    assert rows["gain_ratio"].null_count() == rows.height
    assert {reason.split(" (")[0] for reason in rows["ratio_reason"]} == {
        f"the baseline's interval on group '{group}' reaches 0.5 points" for group in ("in_domain", "out_of_domain")
    }


def test_only_like_seeds_are_compared_and_reasons_say_what_is_not(folder):
    for seed in (0, 1):
        folder.add_trial(trained("cosine", seed=seed), two_queries((0.5, 0.3)))
    folder.add_trial(trained("qnorm", seed=0), two_queries((0.6, 0.4)))
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    cell = cells_of(collect(folder.store, folder.record()))[0]
    assert cell.scores.columns == ("cosine",)
    assert cell.reasons == {"qnorm": UNLIKE_SEEDS, "dnorm": ROWS_MISSING}
    assert cell.seeds == (0, 1)
    assert cell.why_not("qnorm", "half") == f"qnorm: {UNLIKE_SEEDS}; half: the sweep trains none here"


def test_without_its_reference_the_others_are_compared_among_themselves(folder):
    for similarity in ("dot", "qnorm"):
        folder.add_trial(trained(similarity), two_queries((0.5, 0.3)))
    cell = cells_of(collect(folder.store, folder.record()))[0]
    assert cell.scores.columns == ("dot", "qnorm")
    assert gain_intervals([cell], "cosine").is_empty()


def test_two_splits_of_a_data_set_are_apart(tmp_path):
    evaluations = tuple(evaluation("nq", "beir", split=split) for split in ("dev", "test"))
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=evaluations)
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    collected = collect(folder.store, folder.record())
    assert set(by_data_set(collected.expected)["group"]) == {"nq (dev)", "nq (test)"}
    assert set(cells_of(collected)[0].scores.members) == {"nq (dev)", "nq (test)"}


def test_unlike_measures_have_no_mean(tmp_path):
    evaluations = (evaluation("nq", "mixed"), evaluation("msmarco_dev", "mixed", main_measure="RR@10"))
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=evaluations)
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    with pytest.raises(MixedMeasuresError):
        cells_of(collect(folder.store, folder.record()))
