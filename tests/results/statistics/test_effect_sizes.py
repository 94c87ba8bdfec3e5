"""Cohen's d and the coefficient of variation by hand, and by pooled t statistics of scipy."""

import numpy as np
import pytest
from scipy import stats

from results.statistics.effect_sizes import D_UNIT, coefficient_of_variation, cohen_d, sample_of


def test_cohens_d_by_hand():
    """Means 4 and 2; variances 4 (n 3) and 1 (n 3): pooled 2.5."""
    found = cohen_d(sample_of([2.0, 4.0, 6.0]), sample_of([1.0, 2.0, 3.0]))
    assert found.value == pytest.approx(2 / 2.5**0.5)
    assert (found.num_first, found.num_second, found.unit) == (3, 3, D_UNIT)


def test_cohens_d_is_the_pooled_t_statistic_scaled():
    generator = np.random.default_rng(0)
    one, other = generator.normal(1, 2, size=30), generator.normal(0, 1, size=700)
    t = stats.ttest_ind(one, other).statistic
    assert cohen_d(sample_of(one), sample_of(other)).value == pytest.approx(t * (1 / 30 + 1 / 700) ** 0.5)


def test_norms_that_differ_by_float32_rounding_have_no_d():
    """A mean of rounding errors differs with what is rounded, which is no length of a document."""
    vectors = np.random.default_rng(0).normal(size=(400, 384)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = np.linalg.norm(unit.astype(np.float64), axis=1)
    assert 0 < found.std() < 1e-6  # or there is nothing to test
    one, other = np.sort(found)[:200], np.sort(found)[200:]
    assert cohen_d(sample_of(other), sample_of(one)).reason == "all values are equal: they have no standard deviation"
    little = 1 + 1e-4 * np.arange(5)
    assert cohen_d(sample_of(little + 1e-4), sample_of(little)).value == pytest.approx(1 / np.arange(5).std(ddof=1))


def test_norms_that_do_not_vary_have_no_d():
    unit = 1 + 1e-7 * np.random.default_rng(0).normal(size=50)
    assert "at least" not in (reason := cohen_d(sample_of([1.0] * 5), sample_of([1.0] * 5)).reason)
    assert reason == "all values are equal: they have no standard deviation"
    assert cohen_d(sample_of([3.0]), sample_of(unit)).reason == "1 and 50 values: each side needs two"
    assert cohen_d(sample_of([]), sample_of(unit)).value is None


def test_coefficient_of_variation_is_scipys():
    norms = np.random.default_rng(0).gamma(9, size=50)
    assert coefficient_of_variation(sample_of(norms)) == pytest.approx(stats.variation(norms, ddof=1))
    assert coefficient_of_variation(sample_of([1.0])) is None
