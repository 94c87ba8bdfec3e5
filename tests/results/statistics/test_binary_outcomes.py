"""Exact McNemar and binomial tests against scipy and statsmodels, clusters by enumeration, how many cells it takes."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar

from results.statistics.binary_outcomes import against_coin, binomial_p, fewest_for_level, mcnemar, regret
from results.statistics.corrections import adjust


def right(num, share, seed=0):
    return np.random.default_rng(seed).random(num) < share


@pytest.mark.parametrize("seed", range(4))
def test_mcnemar_is_that_of_statsmodels(seed):
    one, other = right(60, 0.7, seed), right(60, 0.5, seed + 10)
    table = [[(one & other).sum(), (one & ~other).sum()], [(~one & other).sum(), (~one & ~other).sum()]]
    found = mcnemar(one, other)
    assert found.p == pytest.approx(their_mcnemar(table, exact=True).pvalue)
    assert (found.num_for, found.num_against) == (table[0][1], table[1][0])
    assert (found.clustered_p, found.num_clusters) == (None, None)


@pytest.mark.parametrize(("hits", "misses"), [(5, 0), (6, 0), (9, 3), (7, 7), (0, 4), (510, 430)])
def test_the_binomial_is_scipys(hits, misses):
    assert binomial_p(hits, misses) == pytest.approx(stats.binomtest(hits, hits + misses).pvalue)
    found = against_coin(np.array([True] * hits + [False] * misses))
    assert (found.num_for, found.num_against) == (hits, misses)
    assert found.p == pytest.approx(binomial_p(hits, misses))


def test_families_flip_together():
    families = list("aaabbbccddefff")
    hits = right(14, 0.75)
    sums = [sum(1 if h else -1 for h, f in zip(hits, families, strict=True) if f == name) for name in "abcdef"]
    flipped = [abs(np.dot(signs, sums)) for signs in product((-1, 1), repeat=6)]
    found = against_coin(hits, clusters=families)
    assert found.clustered_p == np.mean(np.array(flipped) >= abs(sum(sums)))
    assert found.num_clusters == 6


def test_ten_cells_of_two_families_are_no_ten_observations():
    found = against_coin(np.ones(10, dtype=bool), clusters=["a"] * 5 + ["b"] * 5)
    assert found.p == pytest.approx(2 / 2**10)
    assert found.clustered_p == 0.5
    assert found.reason == "2 families: below 6 no outcome is significant with families as clusters"


def test_only_families_with_a_unit_that_differs_count():
    found = mcnemar(np.array([True, True, True]), np.array([True, False, False]), clusters=["a", "b", "b"])
    assert (found.num_clusters, found.num_for) == (1, 2)
    assert found.reason == "2 units: below 6 no outcome is significant"


def test_without_a_difference_there_is_no_p():
    found = mcnemar(right(9, 0.5), right(9, 0.5))
    assert (found.p, found.clustered_p, found.reason) == (None, None, "no unit where the two differ")


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("num_tests", [1, 3, 12])
def test_the_fewest_units_are_those_at_which_holm_can_reach_the_level(level, num_tests):
    fewest = fewest_for_level(level=level, num_tests=num_tests)
    smallest = [adjust([stats.binomtest(n, n).pvalue] + [1.0] * (num_tests - 1))[0] for n in (fewest - 1, fewest)]
    assert smallest[0] > 1 - level >= smallest[1]


def test_six_cells_are_the_fewest_at_95_percent():
    assert fewest_for_level() == 6


def test_regret_is_what_following_the_call_lost():
    called, other = np.array([0.30, 0.25, 0.4]), np.array([0.28, 0.40, 0.4])
    assert regret(called, other) == pytest.approx([0, 0.15, 0])
