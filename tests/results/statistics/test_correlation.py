"""Correlations against scipy, regression on groups, brute-force permutations, and scipy's BCa."""

from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import stats

from results.statistics.bca import bca_interval
from results.statistics.coefficients import coefficient
from results.statistics.correlation import correlate, correlations, outliers_of
from results.statistics.within_groups import draws_within, permutations_within

SCIPYS = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
GROUPS = ["beir"] * 12 + ["bright"] * 9 + ["multi_hop"] * 4


def points(seed=0, slope=0.6, ties=False):
    """Groups that lie apart in both, and a slope within."""
    generator = np.random.default_rng(seed)
    centre = np.array([{"beir": 0.0, "bright": 5.0, "multi_hop": 9.0}[name] for name in GROUPS])
    x = generator.normal(size=len(GROUPS))
    y = centre + slope * x + generator.normal(size=len(GROUPS))
    return ((x + centre).round(), y.round()) if ties else (x + centre, y)


@pytest.mark.parametrize("name", SCIPYS)
@pytest.mark.parametrize("ties", [False, True])
def test_over_all_it_is_scipys(name, ties):
    x, y = points(ties=ties)
    found = correlate(x, y, GROUPS, name, scope="over all")
    assert found.value == pytest.approx(SCIPYS[name](x, y).statistic)
    assert found.n == 25


def test_within_groups_pearson_is_the_partial_correlation_given_the_group():
    x, y = points()
    dummies = np.array([[name == g for g in sorted(set(GROUPS))] for name in GROUPS], dtype=float)
    rests = [v - dummies @ np.linalg.lstsq(dummies, v, rcond=None)[0] for v in (x, y)]
    assert correlate(x, y, GROUPS, "pearson").value == pytest.approx(stats.pearsonr(*rests).statistic)


def test_within_groups_spearman_correlates_centred_ranks():
    x, y = points(ties=True)
    ranks = []
    for values in (x, y):
        inside = [stats.rankdata(values[[g == name for g in GROUPS]]) for name in dict.fromkeys(GROUPS)]
        ranks.append(np.concatenate([r - r.mean() for r in inside]))
    assert correlate(x, y, GROUPS, "spearman").value == pytest.approx(stats.pearsonr(*ranks).statistic)


def test_within_groups_kendall_counts_pairs_of_one_group():
    x, y = points(ties=True)
    pairs = [(i, j) for i, j in combinations(range(25), 2) if GROUPS[i] == GROUPS[j]]
    signs = np.array([(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs])
    expected = (signs[:, 0] * signs[:, 1]).sum() / np.sqrt(np.prod((signs**2).sum(axis=0)))
    assert correlate(x, y, GROUPS, "kendall").value == pytest.approx(expected)


def test_groups_that_lie_apart_make_a_correlation_over_all_alone():
    x, y = points(slope=0.0)
    over_all, within = (correlate(x, y, GROUPS, "pearson", scope=s) for s in ("over all", "within groups"))
    assert over_all.value > 0.8
    assert abs(within.value) < 0.4
    assert min(over_all.p, within.p) > 0.05, "both are judged by what permutes within groups"


@pytest.mark.parametrize("name", SCIPYS)
def test_p_is_the_share_of_all_permutations_within_groups(name):
    generator = np.random.default_rng(3)
    groups = ["a", "b", "a", "b", "a", "b", "a"]
    x, y = generator.normal(size=7), generator.normal(size=7)
    inside = [[0, 2, 4, 6], [1, 3, 5]]
    values = []
    for one, other in product(permutations(inside[0]), permutations(inside[1])):
        order = np.arange(7)
        order[inside[0]], order[inside[1]] = one, other
        values.append(SCIPYS[name](x, y[order]).statistic)
    centre = np.mean(values)
    observed = SCIPYS[name](x, y).statistic
    expected = np.mean(np.abs(np.array(values) - centre) >= abs(observed - centre) - 1e-9)
    assert correlate(x, y, groups, name, scope="over all").p == pytest.approx(expected)


def test_drawn_permutations_stay_within_groups_and_p_agrees_with_scipys():
    codes = np.array([0] * 12 + [1] * 9)
    order, is_exact = permutations_within(codes, 500, seed=0)
    assert not is_exact
    assert (np.sort(order, axis=1) == np.arange(21)).all()
    assert (codes[order] == codes).all()
    assert (codes[draws_within(codes, 500, seed=0)] == codes).all()
    x, y = points()
    y = np.random.default_rng(5).permutation(y) + 0.15 * x
    theirs = stats.permutation_test(
        (y,), lambda v: stats.pearsonr(x, v).statistic, permutation_type="pairings", n_resamples=4000, rng=0
    ).pvalue
    found = correlate(x, y, ["one"] * 25, "pearson", scope="over all").p
    assert found == pytest.approx(theirs, abs=0.05)


@pytest.mark.parametrize("statistic", ["pearson", "mean"])
def test_bca_is_scipys(statistic):
    generator = np.random.default_rng(0)
    x = generator.exponential(size=40)
    y = x + generator.normal(size=40)
    drawn = draws_within(np.zeros(40, dtype=int), 30_000, seed=0)
    if statistic == "mean":
        value, drawn_B = x.mean(), x[drawn].mean(axis=1)
        left_out = np.array([np.delete(x, i).mean() for i in range(40)])
        theirs = stats.bootstrap((x,), np.mean, method="BCa", n_resamples=30_000, rng=1)
    else:
        strata = np.zeros(40, dtype=int)
        value, drawn_B = stats.pearsonr(x, y).statistic, coefficient("pearson", x[drawn], y[drawn], strata)
        left_out = np.array([stats.pearsonr(np.delete(x, i), np.delete(y, i)).statistic for i in range(40)])
        theirs = stats.bootstrap(
            (x, y),
            lambda a, b, axis: stats.pearsonr(a, b, axis=axis).statistic,
            method="BCa",
            paired=True,
            n_resamples=30_000,
            rng=1,
        )
    low, high = bca_interval(value, drawn_B, left_out, 0.95)
    expected = theirs.confidence_interval
    assert (low, high) == pytest.approx(tuple(expected), abs=0.03 * (expected.high - expected.low))


def test_leave_one_out_names_the_point_that_matters_most():
    x, y = points()
    x[4], y[4] = 30.0, -30.0
    found = correlate(x, y, GROUPS, "pearson", scope="over all")
    expected = [stats.pearsonr(np.delete(x, i), np.delete(y, i)).statistic for i in range(25)]
    assert (found.left_out_low, found.left_out_high) == pytest.approx((min(expected), max(expected)))
    assert found.most_influential == 4


def test_outliers_are_those_beyond_tukeys_fences():
    x, y = points()
    x[4], y[20] = 60.0, -60.0
    assert np.flatnonzero(outliers_of(x, y)).tolist() == [4, 20]
    found = correlate(x, y, GROUPS, "pearson", scope="over all", outliers="without")
    kept = np.delete(np.arange(25), [4, 20])
    assert found.value == pytest.approx(stats.pearsonr(x[kept], y[kept]).statistic)
    assert (found.n, found.num_left_out) == (23, 2)
    assert found.most_influential in kept


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Coverage over simulated groups of points with a known correlation; BCa with 25 points is a little short."""
    num, covered = 150, 0
    truth = 0.6 / np.sqrt(1 + 0.36)
    for seed in range(num):
        x, y = points(seed + 100)
        found = correlate(x, y, GROUPS, "pearson")
        covered += found.low <= truth <= found.high
    assert stats.binom.ppf(0.001, num, 0.88) <= covered <= stats.binom.ppf(0.999, num, 0.97)


def test_every_kind_is_listed():
    x, y = points()
    found = correlations(x, y, GROUPS)
    assert len({(c.coefficient, c.scope, c.outliers) for c in found}) == 12
    assert all(c.low < c.value < c.high and 0 < c.p <= 1 for c in found)


def test_what_has_no_correlation_says_why():
    x, y = points()
    assert "3 points" in correlate(x[:3], y[:3], GROUPS[:3], "pearson").reason
    assert "does not vary" in correlate(x, np.ones(25), GROUPS, "spearman").reason
    centre = np.array([len(name) for name in GROUPS], dtype=float)
    constant = correlate(centre, y, GROUPS, "pearson")
    assert (constant.value, constant.reason) == (None, "one of the two does not vary within groups")
    perfect = correlate(x, x, GROUPS, "pearson")
    assert (perfect.value, perfect.low) == (pytest.approx(1.0), None)
    assert perfect.reason == "the draws do not spread around the value: no BCa interval"
    with pytest.raises(ValueError, match="missing or infinite"):
        correlate(x, np.full(25, np.nan), GROUPS, "pearson")
    with pytest.raises(ValueError, match="25, 24 and 25 points"):
        correlate(x, y[:24], GROUPS, "pearson")


@pytest.mark.parametrize("name", SCIPYS)
def test_points_alone_in_their_group_carry_nothing_within_groups_and_do_not_count(name):
    x, y = points()
    groups = [*GROUPS, "alone", "lonely"]
    more = np.append(x, [50.0, -9.0]), np.append(y, [-70.0, 8.0])
    assert correlate(*more, groups, name) == replace(correlate(x, y, GROUPS, name), num_alone=2)
    assert correlate(*more, groups, name, scope="over all").n == 27
    few = correlate(x[:5], y[:5], ["a", "a", "b", "c", "d"], name)
    assert (few.n, few.value, few.reason) == (2, None, "2 points, 3 more alone in a group: a correlation needs 4")
