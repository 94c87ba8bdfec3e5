"""The crossed bootstrap against rows that are really repeated, and against scipy's."""

import numpy as np
import pytest
from made_scores import COLUMNS, group, scores
from scipy import stats

from results.statistics.bootstrap import (
    Draws,
    bootstrap_group_means,
    crossed_means,
    percentile_interval,
    resampling_weights,
)
from results.statistics.contrasts import paired_gain
from results.statistics.groups import DataSetScores, GroupScores, group_means


def test_weights_are_those_of_draws_with_replacement():
    weights = resampling_weights(Draws(num_draws=4000), "queries of a", 10)
    counts = weights * 10
    assert weights.sum(axis=1) == pytest.approx(np.ones(4000))
    assert np.array_equal(counts, counts.round())
    # the variance of a multinomial count is 1 - 1/10, known here to 1 %; that of two counts -1/10
    assert counts.var() == pytest.approx(0.9, rel=0.03)
    assert np.cov(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-0.1, abs=0.05)


def test_equal_names_give_equal_draws_and_others_do_not():
    one = resampling_weights(Draws(), "queries of a", 8)
    assert np.array_equal(one, resampling_weights(Draws(), "queries of a", 8))
    assert not np.array_equal(one, resampling_weights(Draws(), "queries of b", 8))
    assert not np.array_equal(one, resampling_weights(Draws(seed=1), "queries of a", 8))


def test_a_weighted_mean_is_the_mean_of_repeated_rows():
    values = scores(np.random.default_rng(0), num_seeds=4, num_queries=9)
    draws = Draws(num_draws=50)
    seeds, queries = resampling_weights(draws, "s", 4), resampling_weights(draws, "q", 9)
    found = crossed_means(values, seeds, queries)
    for draw in range(50):
        repeated = values.repeat((4 * seeds[draw]).round().astype(int), axis=1)
        repeated = repeated.repeat((9 * queries[draw]).round().astype(int), axis=2)
        assert found[draw] == pytest.approx(repeated.mean(axis=(1, 2)))


def one_data_set(values):
    data_set = DataSetScores(name="a", part_of="a", values_CSQ=values)
    return GroupScores(name="g", trainings="t", columns=COLUMNS, data_sets=(data_set,))


def test_with_one_seed_it_is_scipys_percentile_bootstrap():
    some = one_data_set(scores(np.random.default_rng(1), num_seeds=1, num_queries=60))
    means = bootstrap_group_means(some, Draws(num_draws=20_000))
    values = some.data_sets[0].values_CSQ
    theirs = stats.bootstrap((values[1, 0] - values[0, 0],), np.mean, method="percentile", n_resamples=20_000, rng=0)
    ours = percentile_interval(means[:, 1] - means[:, 0])
    width = ours[1] - ours[0]
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.03 * width)


@pytest.mark.parametrize("target", ["these data sets", "new data sets"])
def test_with_many_seeds_queries_and_data_sets_it_agrees_with_the_two_way_model(target):
    # data sets that differ, since the noise of their queries counts twice in draws of both
    some = group(0, num_seeds=30, parts={str(i): str(i) for i in range(30)}, spread=0.05)
    means = bootstrap_group_means(some, Draws(num_draws=4000), target=target)
    found = paired_gain(some, "qnorm", "cosine", target=target)
    low, high = percentile_interval(means[:, 1] - means[:, 0])
    assert means.mean(axis=0) == pytest.approx(group_means(some), abs=0.002)
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.15 * (found.high - found.low))


def test_seeds_shared_by_data_sets_are_drawn_together():
    rows = np.tile(np.array([-1.0, 0.0, 1.0])[:, None], (1, 5))[None]
    data_sets = tuple(DataSetScores(name=str(j), part_of=str(j), values_CSQ=rows) for j in range(4))
    shared = GroupScores(name="g", trainings="t", columns=("d",), data_sets=data_sets)
    std = bootstrap_group_means(shared, Draws(num_draws=5000)).std()
    assert std == pytest.approx((2 / 9) ** 0.5, rel=0.05), "drawn for each data set alone it would be half"
