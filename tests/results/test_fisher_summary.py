"""Hits, exact tests, regret and Kendall's tau against scipy and numbers worked out by hand."""

import polars as pl
import pytest
from scipy import stats

from results.fisher_summary import ALWAYS, COIN, fisher_summary, fisher_tau
from results.published_fisher import published_check
from results.statistics.binary_outcomes import fewest_for_level
from results.tables import TABLES, TableOptions

# (family, call, winner, predicted difference, qnorm's score, dnorm's)
CELLS = [
    ("a", "qnorm", "qnorm", -0.30, 0.50, 0.40),  # hit
    ("a", "dnorm", "dnorm", 0.20, 0.30, 0.36),  # hit
    ("b", "dnorm", "dnorm", 0.25, 0.20, 0.25),  # hit
    ("b", "dnorm", "qnorm", 0.10, 0.40, 0.37),  # miss
    ("c", "qnorm", "qnorm", -0.15, 0.44, 0.40),  # hit
    ("c", "qnorm", "tie", -0.05, 0.30, 0.31),  # not decided
    ("d", "undecided", "dnorm", 0.02, 0.30, 0.35),  # no call
    ("e", None, None, None, None, None),  # no rows
]


def check_of(cells, group="beir", is_primary=True):
    rows = [
        {
            "predictor": "fisher_condition",
            "training_data": "msmarco",
            "scale": "fixed(20)",
            "group": group,
            "is_primary": is_primary,
            "family": family,
            "init_regime": "finetune",
            "seed": None,
            "call": call,
            "winner": winner,
            "difference_min": None if difference is None else difference - 0.01,
            "difference_max": None if difference is None else difference + 0.01,
            "qnorm_score": qnorm,
            "dnorm_score": dnorm,
            "gain": None if qnorm is None else qnorm - dnorm,
            "trial_ids": f"{family}-q; {family}-d",
            "probe_id": f"probe-of-{family}",
        }
        for family, call, winner, difference, qnorm, dnorm in cells
    ]
    return pl.DataFrame(rows, schema_overrides={"seed": pl.Int64})


def by_opponent(cells):
    return {row["opponent"]: row for row in fisher_summary(check_of(cells)).iter_rows(named=True)}


def test_only_decided_cells_count_as_hits():
    for row in by_opponent(CELLS).values():
        assert (row["num_cells"], row["num_called"], row["num_decided"], row["num_hits"]) == (7, 6, 5, 4)


def test_against_a_coin_is_the_exact_binomial_test():
    coin = by_opponent(CELLS)[COIN]
    assert coin["p"] == pytest.approx(stats.binomtest(4, 5, 0.5).pvalue)
    assert (coin["num_for"], coin["num_against"], coin["opponent_hits"]) == (4, 1, 2.5)
    # Families a, b, c bring +2, 0, +1: of the 8 signs of three sums, 4 reach |3|.
    assert (coin["num_families"], coin["clustered_p"]) == (3, pytest.approx(0.5))


def test_against_a_fixed_call_is_exact_mcnemar_on_the_cells_where_they_differ():
    rows = by_opponent(CELLS)
    # Always qnorm is right in three cells, and differs from the calls where dnorm was called: twice better, once worse.
    qnorm = rows[ALWAYS["qnorm"]]
    assert (qnorm["opponent_hits"], qnorm["num_for"], qnorm["num_against"]) == (3, 2, 1)
    assert qnorm["p"] == pytest.approx(stats.binomtest(2, 3, 0.5).pvalue)
    # Always dnorm is right in two, and differs where qnorm was called: twice better.
    dnorm = rows[ALWAYS["dnorm"]]
    assert (dnorm["opponent_hits"], dnorm["num_for"], dnorm["num_against"]) == (2, 2, 0)
    assert dnorm["p"] == pytest.approx(stats.binomtest(2, 2, 0.5).pvalue)
    assert "2 cells differ" in dnorm["reason"]


def test_regret_is_what_following_a_call_lost_over_all_called_cells():
    rows = by_opponent(CELLS)
    # Called qnorm in the tie (-.01) and dnorm in the miss (-.03); six called cells.
    assert rows[COIN]["regret"] == pytest.approx((0.01 + 0.03) / 6)
    assert rows[ALWAYS["qnorm"]]["opponent_regret"] == pytest.approx((0.06 + 0.05 + 0.01) / 6)
    assert rows[ALWAYS["dnorm"]]["opponent_regret"] == pytest.approx((0.10 + 0.03 + 0.04) / 6)
    assert rows[COIN]["opponent_regret"] == pytest.approx((0.10 + 0.06 + 0.05 + 0.03 + 0.04 + 0.01) / 12)


def test_holm_goes_over_all_p_and_the_fewest_cells_follow_from_it():
    rows = fisher_summary(check_of(CELLS))
    ps = [*rows["p"], *rows["clustered_p"]]
    smallest = min(ps)
    place = ps.index(smallest)
    adjusted = [*rows["adjusted_p"], *rows["adjusted_clustered_p"]]
    assert adjusted[place] == pytest.approx(min(1.0, len(ps) * smallest))
    assert set(rows["fewest"]) == {fewest_for_level(num_tests=6)} == {8}
    assert 6 * 2.0 ** (1 - 8) <= 0.05 < 6 * 2.0 ** (1 - 7)


def test_nothing_decided_has_no_p_and_says_why():
    rows = by_opponent([CELLS[6], CELLS[7]])
    assert rows[COIN]["p"] is None
    assert rows[COIN]["regret"] is None
    assert rows[COIN]["reason"] == "no decided unit"


def test_groups_and_scales_are_not_pooled():
    both = pl.concat([check_of(CELLS), check_of(CELLS[:2], group="bright", is_primary=False)])
    rows = fisher_summary(both)
    assert rows["group"].to_list() == ["beir"] * 3 + ["bright"] * 3
    assert rows["num_decided"].to_list() == [5] * 3 + [2] * 3
    # Within families: family d has one cell alone, which is in no pair.
    assert fisher_tau(both)["n"].to_list() == [7, 6, 2, 2]


def test_tau_is_kendalls_over_all_cells_with_both_differences():
    over_all, within = fisher_tau(check_of(CELLS)).iter_rows(named=True)
    x = [cell[3] for cell in CELLS[:7]]
    y = [cell[4] - cell[5] for cell in CELLS[:7]]
    expected = stats.kendalltau(x, y)
    assert over_all["tau"] == pytest.approx(expected.statistic)
    # All 5,040 orders are tried.
    assert over_all["p"] == pytest.approx(expected.pvalue, abs=0.02)
    assert over_all["low"] <= over_all["tau"] <= over_all["high"]
    # Pairs of one family, those of a, b and c: all three discordant.
    assert within["tau"] == pytest.approx(-1.0)
    assert within["scope"] == "within families"


def test_the_studys_own_table_comes_out_as_published():
    rows = published_check()
    primary = rows.filter("is_primary").select("family", "qnorm_min", "dnorm_min", "call", "winner", "verdict").rows()
    assert primary == [
        ("contriever", 3.83, 3.84, "qnorm", "qnorm", "hit"),
        ("retromae", 6.96, 6.92, "dnorm", "dnorm", "hit"),
    ]
    # Its winner depends on the group: dnorm on the multi-hop data sets, 57.54 against 57.38.
    missed = rows.filter(pl.col("verdict") == "miss").select("family", "group", "winner").rows()
    assert missed == [("contriever", "multi_hop", "dnorm")]
    contriever = rows.row(0, named=True)
    assert contriever["qnorm_score"] == pytest.approx((44.01 + 12.74 + 57.38) / 300)
    assert contriever["gain"] == pytest.approx((44.01 + 12.74 + 57.38 - 42.45 - 9.83 - 57.54) / 300)


def test_the_published_table_has_the_layout_of_the_check(small):
    ours = [column.key for column in TABLES["fisher_check"].build(small, TableOptions()).columns]
    theirs = [column.key for column in TABLES["fisher_published"].build(small, TableOptions()).columns]
    softmax = [key for key in ours if key.startswith("qnorm_") and key not in ("qnorm_min", "qnorm_score")]
    assert theirs == [key for key in ours if key not in softmax]
