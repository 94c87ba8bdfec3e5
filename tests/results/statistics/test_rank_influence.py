"""Spearman's rho as a mean of shares: against scipy, the jackknife by brute force, and simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from results.statistics.rank_influence import spearman_shares


def drawn(num, correlation, seed, *, ties):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=num)
    y = correlation * x + np.sqrt(1 - correlation**2) * generator.normal(size=num)
    return (x, np.round(y)) if ties else (x, y)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.9])
def test_the_mean_is_rho(correlation, ties):
    x, y = drawn(60, correlation, 1, ties=ties)
    assert spearman_shares(x, y).mean() == pytest.approx(stats.spearmanr(x, y).statistic)


@pytest.mark.parametrize("ties", [False, True])
def test_shares_are_the_jackknifes_in_the_limit(ties):
    x, y = drawn(400, 0.6, 2, ties=ties)
    rho = stats.spearmanr(x, y).statistic
    rest = np.array([stats.spearmanr(np.delete(x, i), np.delete(y, i)).statistic for i in range(len(x))])
    pseudo = len(x) * rho - (len(x) - 1) * rest
    found = spearman_shares(x, y)
    assert np.corrcoef(found, pseudo)[0, 1] > 0.999
    assert found.std(ddof=1) == pytest.approx(pseudo.std(ddof=1), rel=0.02)


def test_a_difference_of_two_orders_has_an_interval_that_holds():
    """1,000 sets of 100 pairs whose two scores are equally good: the paired 95 % interval holds 0 in 93 to 97 %."""
    generator, holds = np.random.default_rng(3), 0
    for _ in range(1000):
        gold, shared = generator.normal(size=(2, 100))
        forward, swapped = (gold + shared + 0.5 * generator.normal(size=100) for _ in range(2))
        difference = spearman_shares(forward, gold) - spearman_shares(swapped, gold)
        holds += stats.ttest_1samp(difference, 0.0).pvalue > 0.05
    assert 930 <= holds <= 970


def test_what_does_not_vary_has_no_shares():
    assert spearman_shares(np.ones(5), np.arange(5.0)) is None
    assert spearman_shares(np.ones(1), np.ones(1)) is None
