"""Winners of cells and ranks over data sets, against scipy, published constants and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from made_scores import COLUMNS, group
from scipy import stats

from results.statistics.contrasts import paired_gain
from results.statistics.groups import DataSetScores, GroupScores
from results.statistics.ranks import data_sets_won, rank_over_data_sets
from results.statistics.winners import can_be_told, winner_of

NAMES = ("a", "b", "c", "d")


def scores(seed=0, num_data_sets=14):
    return np.random.default_rng(seed).normal(size=(num_data_sets, 4)) + np.array([0.0, 0.4, 0.8, 1.2])


def test_the_best_is_held_against_the_second():
    found = winner_of(group(0))
    assert (found.best, found.second) == ("dnorm", "qnorm")
    assert found.lead == paired_gain(group(0), "dnorm", "qnorm")
    assert can_be_told(found, 0.04)
    assert not can_be_told(found, 0.06)
    assert not can_be_told(found, None)


def test_equal_columns_cannot_be_told():
    some = group(0)
    equal = replace(some, data_sets=tuple(replace(p, values_CSQ=p.values_CSQ[[0, 0, 0]]) for p in some.data_sets))
    found = winner_of(equal)
    assert (found.best, found.second, found.lead.value, found.lead.p) == ("cosine", "qnorm", 0, 1)


def test_a_winner_needs_two_columns():
    some = replace(group(0), columns=("cosine",))
    with pytest.raises(ValueError, match="a winner needs two columns"):
        winner_of(some)


@pytest.mark.parametrize("true_means", [(0.0, 0.0, -9.0, -9.0), (0.0, 0.0, 0.0, 0.0)])
def test_calling_a_winner_where_there_is_none_is_rare(true_means):
    """Two equal ones and the rest far behind is the worst case: the level. All equal: less."""
    generator, called, num = np.random.default_rng(0), 0, 1500
    for _ in range(num):
        values = np.array(true_means)[:, None, None] + generator.normal(size=(4, 1, 40))
        data_set = DataSetScores(name="x", part_of="x", values_CSQ=values)
        winner = winner_of(GroupScores(name="g", trainings="t", columns=NAMES, data_sets=(data_set,)))
        called += can_be_told(winner, winner.lead.p)
    assert called <= stats.binom.ppf(0.999, num, 0.05)
    if true_means[2] < 0:
        assert called >= stats.binom.ppf(0.001, num, 0.05)


def test_friedman_is_scipys_and_ranks_are_best_first():
    table = scores()
    found = rank_over_data_sets(table, NAMES)
    expected = stats.friedmanchisquare(*table.T)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert min(found.mean_ranks, key=found.mean_ranks.get) == "d"
    assert sum(found.mean_ranks.values()) == pytest.approx(10)


@pytest.mark.parametrize(("num_columns", "q"), [(3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850)])
def test_nemenyis_critical_difference_is_the_published_one(num_columns, q):
    """Table 5a of Demsar (JMLR 7, 2006), alpha 0.05."""
    table = np.random.default_rng(0).normal(size=(14, num_columns))
    names = [str(i) for i in range(num_columns)]
    found = rank_over_data_sets(table, names, post_hoc="nemenyi")
    assert found.critical_difference == pytest.approx(q * (num_columns * (num_columns + 1) / 84) ** 0.5, abs=1e-3)
    for (a, b), p in found.pair_p.items():
        distance = abs(found.mean_ranks[a] - found.mean_ranks[b])
        assert (p < 0.05) == (distance > found.critical_difference)


def test_holm_after_friedman_by_hand():
    found = rank_over_data_sets(scores(), NAMES)
    error = (4 * 5 / (6 * 14)) ** 0.5
    raw = {
        pair: 2 * stats.norm.sf(abs(found.mean_ranks[pair[0]] - found.mean_ranks[pair[1]]) / error)
        for pair in found.pair_p
    }
    smallest = min(raw, key=raw.get)
    assert len(raw) == 6
    assert found.pair_p[smallest] == pytest.approx(6 * raw[smallest])


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.zeros((5, 3)), "all columns score alike"),
        (scores(num_data_sets=1), "one data set"),
        (scores()[:, :2], "compares three or more"),
    ],
)
def test_where_there_is_no_test_there_is_a_reason(table, reason):
    found = rank_over_data_sets(table, NAMES[: table.shape[1]])
    assert (found.p, found.pair_p) == (None, None)
    assert reason in found.reason


def test_a_data_set_is_really_won_where_the_second_is_told():
    winners = [winner_of(group(seed)) for seed in range(3)]
    assert {w.best for w in winners} == {"dnorm"}
    assert data_sets_won(winners, [0.01, 0.2, None]) == {"dnorm": 1, "qnorm": 0}
    assert set(data_sets_won(winners, [0.01] * 3)) <= set(COLUMNS)
