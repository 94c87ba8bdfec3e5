"""Paired tests, sign flips and corrections against scipy, statsmodels and full enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.statistics.corrections import adjust
from results.statistics.paired_tests import ALL_EQUAL, ONE_QUERY, paired_test, query_differences
from results.statistics.sign_flips import clustered_sign_flip_p, sign_flip_p


def differences(size, seed=0, shift=0.2):
    return shift + np.random.default_rng(seed).normal(size=size)


def test_t_is_scipys():
    values = differences(50)
    found = paired_test(values)
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert found.d_z == pytest.approx(values.mean() / values.std(ddof=1))
    assert found.sources == "these seeds only"


def test_wilcoxon_is_scipys_with_zeros_ranked():
    values = differences(50).round(1)
    assert (values == 0).any()
    assert paired_test(values, "wilcoxon").p == pytest.approx(stats.wilcoxon(values, zero_method="pratt").pvalue)


def test_few_queries_are_permuted_exactly():
    values = differences(9, shift=0.6)
    sums = [abs(np.dot(signs, values)) for signs in product((-1, 1), repeat=9)]
    expected = np.mean(np.array(sums) >= abs(values.sum()) - 1e-9)
    assert paired_test(values, "permutation").p == expected
    theirs = stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert paired_test(values, "permutation").p == pytest.approx(theirs.pvalue)


def test_many_queries_are_permuted_by_a_seeded_sample():
    values = differences(60, shift=0.25)
    theirs = stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=40_000, rng=1).pvalue
    found = paired_test(values, "permutation").p
    assert 0.001 < theirs < 0.3
    assert found == pytest.approx(theirs, abs=4 * (theirs / 9_999) ** 0.5)
    assert paired_test(values, "permutation").p == found


def test_a_drawn_p_is_never_0_and_columns_share_signs():
    values = differences(60, shift=5.0)
    assert sign_flip_p(np.stack([values, values], axis=1)).tolist() == [1 / 10_000] * 2


def test_two_of_four_signs_that_tie_count_as_far():
    assert sign_flip_p(np.array([[0.1], [0.2]])).tolist() == [0.5]
    assert sign_flip_p(np.array([[0.1], [0.1], [-0.2]])).tolist() == [1.0]


def test_clusters_flip_together():
    terms, clusters = differences(12), list("aabbbccccdde")
    sums = [terms[[c == name for c in clusters]].sum() for name in "abcde"]
    flipped = [abs(np.dot(signs, sums)) for signs in product((-1, 1), repeat=5)]
    assert clustered_sign_flip_p(terms, clusters) == np.mean(np.array(flipped) >= abs(terms.sum()) - 1e-9)


@pytest.mark.parametrize("test", ["t", "permutation", "wilcoxon"])
def test_no_difference_has_p_1_and_one_query_none(test):
    assert paired_test(np.zeros(8), test).p == 1.0
    assert (paired_test(np.ones(1), test).p, paired_test(np.ones(1), test).reason) == (None, ONE_QUERY)


def test_equal_differences_have_no_t():
    assert (paired_test(np.full(8, 0.1)).p, paired_test(np.full(8, 0.1)).reason) == (None, ALL_EQUAL)
    assert paired_test(np.full(8, 0.1), "permutation").p == 2 / 2**8


def test_differences_are_averaged_over_seeds():
    one, base = np.random.default_rng(0).normal(size=(2, 3, 5))
    assert query_differences(one, base) == pytest.approx(one.mean(axis=0) - base.mean(axis=0))
    with pytest.raises(ValueError, match="same queries"):
        query_differences(one, base[:, :4])
    with pytest.raises(ValueError, match="no holes"):
        query_differences(one, np.full_like(one, np.nan))


@pytest.mark.parametrize(("ours", "theirs"), [("holm", "holm"), ("benjamini-hochberg", "fdr_bh")])
@pytest.mark.parametrize("seed", range(5))
def test_adjusted_p_is_that_of_statsmodels(ours, theirs, seed):
    p_values = np.random.default_rng(seed).uniform(size=25) ** 3
    p_values[3] = p_values[7]
    assert adjust(p_values.tolist(), ours) == pytest.approx(multipletests(p_values, method=theirs)[1].tolist())


def test_tests_that_could_not_be_made_do_not_count():
    assert adjust([0.01, None, 0.03]) == [pytest.approx(0.02), None, pytest.approx(0.03)]
    assert adjust([]) == []
    assert adjust([None]) == [None]
    with pytest.raises(ValueError, match="lies between 0 and 1"):
        adjust([0.2, float("nan")])
