"""Relative gains: values by hand, intervals against the contrast that they invert and against resampling."""

from dataclasses import replace

import numpy as np
import pytest
from made_scores import COLUMNS, group

from results.statistics.bootstrap import Draws, bootstrap_group_means
from results.statistics.contrasts import Term, estimate_contrast, paired_gain
from results.statistics.groups import DataSetScores, GroupScores, group_means
from results.statistics.ratios import mean_of_ratios, ratio_of_means

TARGETS = ["these data sets", "new data sets"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("num_seeds", [1, 3])
def test_both_ends_of_fiellers_interval_are_just_rejected(target, num_seeds):
    some = group(1, num_seeds=num_seeds)
    found = ratio_of_means(some, "qnorm", "cosine", target=target)
    means = dict(zip(COLUMNS, group_means(some), strict=True))
    assert found.value == pytest.approx(means["qnorm"] / means["cosine"] - 1)
    assert found.low < found.value < found.high
    for end in (found.low, found.high):
        coefficients = {"qnorm": 1.0, "cosine": -(1 + end)}
        there = estimate_contrast([Term(group=some, coefficients=coefficients)], target=target)
        assert there.p == pytest.approx(0.05, rel=1e-6)


def test_a_ratio_has_the_gains_p_and_agrees_with_it():
    for seed in range(10):
        ratio, gain = ratio_of_means(group(seed), "dnorm", "cosine"), paired_gain(group(seed), "dnorm", "cosine")
        assert ratio.p == gain.p
        assert (ratio.low > 0 or ratio.high < 0) == (gain.p < 0.05)


@pytest.mark.parametrize("num_seeds", [1, 3])
def test_a_ratio_that_does_not_vary_has_no_width(num_seeds):
    some = group(1, num_seeds=num_seeds)
    times = tuple(
        replace(p, values_CSQ=p.values_CSQ[[0, 0, 0]] * np.array([1, 1.1, 1])[:, None, None]) for p in some.data_sets
    )
    found = ratio_of_means(replace(some, data_sets=times), "qnorm", "cosine")
    assert (found.low, found.value, found.high) == pytest.approx((0.1, 0.1, 0.1), abs=1e-6)


def test_the_published_headline():
    """Contriever on BRIGHT: 7.41 with cosine, 12.74 with qnorm, +71.9 % (one seed, queries that spread little)."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(2, 1, 1, 400))
    noise -= noise.mean(axis=-1, keepdims=True)
    values = np.array([0.0741, 0.1274]).reshape(2, 1, 1) + noise[:, 0]
    some = GroupScores(
        name="bright",
        trainings="contriever",
        columns=("cosine", "qnorm"),
        data_sets=(DataSetScores(name="a", part_of="a", values_CSQ=values),),
    )
    assert ratio_of_means(some, "qnorm", "cosine").value == pytest.approx(0.719, abs=5e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_mean_of_ratios_and_its_spread(target):
    """Its standard error against the crossed bootstrap's, where many seeds, queries and data sets make both good."""
    parts = {str(i): str(i) for i in range(25)}
    some = group(3, num_seeds=25, parts=parts, spread=0.05)
    found = mean_of_ratios(some, "qnorm", "cosine", target=target)
    ratios = [p.values_CSQ[1].mean() / p.values_CSQ[0].mean() - 1 for p in some.data_sets]
    assert found.value == pytest.approx(np.mean(ratios))
    drawn = []
    for part in some.data_sets:
        means = bootstrap_group_means(replace(some, data_sets=(part,)), Draws(num_draws=2000))
        drawn.append(means[:, 1] / means[:, 0] - 1)
    drawn = np.array(drawn)
    if target == "new data sets":
        chosen = np.random.default_rng(0).integers(25, size=(25, 2000))
        drawn = drawn[chosen, np.arange(2000)]
    assert found.standard_error == pytest.approx(drawn.mean(axis=0).std(), rel=0.15)


def test_the_two_formulas_differ():
    some = group(0, parts={"a": "a", "b": "b"})
    low = some.data_sets[0]
    lowered = replace(some, data_sets=(replace(low, values_CSQ=low.values_CSQ - 0.15), some.data_sets[1]))
    assert (
        abs(mean_of_ratios(lowered, "dnorm", "cosine").value - ratio_of_means(lowered, "dnorm", "cosine").value) > 0.01
    )


@pytest.mark.parametrize("formula", [ratio_of_means, mean_of_ratios])
def test_a_baseline_near_zero_has_no_ratio(formula):
    found = formula(group(0, level=0.002), "qnorm", "cosine")
    assert (found.value, found.low, found.p) == (None, None, None)
    assert "reaches 0.5 points" in found.reason
    assert "there is no meaningful ratio" in found.reason


def test_mean_of_ratios_names_the_data_set_that_forbids_it():
    some = group(0)
    bad = replace(some.data_sets[1], values_CSQ=some.data_sets[1].values_CSQ - 0.29)
    found = mean_of_ratios(replace(some, data_sets=(some.data_sets[0], bad, *some.data_sets[2:])), "qnorm", "cosine")
    assert "data set 'b'" in found.reason
