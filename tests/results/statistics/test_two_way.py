"""The two-way model against analysis of variance, t tests, its own definition, and a simulation of its variance."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from results.statistics.estimate import NO_VARIANCE, ONE_SEED
from results.statistics.two_way import Layout, combine, components_of, estimate_mean, mean_of


def layout(values, *, weight=1.0, seeds="s", queries="q"):
    return Layout(values_SQ=np.asarray(values, dtype=float), weight=weight, seeds=seeds, queries=queries)


def normal(*size, seed=0):
    return np.random.default_rng(seed).normal(size=size)


def crossed(seed, num_seeds=4, num_queries=7):
    return 0.5 + normal(num_seeds, 1, seed=seed) + normal(num_queries, seed=seed + 1) + normal(4, 7, seed=seed + 2)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_variance_and_df_are_those_of_the_analysis_of_variance(seed):
    values = crossed(seed)
    num_seeds, num_queries = values.shape
    s, q = np.meshgrid(range(num_seeds), range(num_queries), indexing="ij")
    frame = pd.DataFrame({"y": values.ravel(), "s": s.ravel(), "q": q.ravel()})
    table = anova_lm(ols("y ~ C(s) + C(q)", data=frame).fit())
    squares = table["sum_sq"] / table["df"] / values.size
    expected = squares["C(s)"] + squares["C(q)"] - squares["Residual"]
    df = expected**2 / sum(squares[name] ** 2 / table["df"][name] for name in squares.index)
    assert min(squares["C(s)"], squares["C(q)"]) > squares["Residual"], "nothing is cut off at 0 here"

    found = estimate_mean([layout(values)])

    assert found.standard_error == pytest.approx(expected**0.5)
    assert found.df == pytest.approx(df)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, df, values.mean(), expected**0.5))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(values.mean()) / expected**0.5, df))
    assert found.seed_share == pytest.approx((squares["C(s)"] - squares["Residual"]) / expected)


def test_a_component_below_zero_counts_as_zero():
    """Seed means that differ less than the residual makes them: what is left is the t test over query means."""
    queries, rest = normal(30), normal(3, 30, seed=1)
    values = queries + rest - rest.mean(axis=1, keepdims=True)
    found = estimate_mean([layout(values)])
    assert found.p == pytest.approx(stats.ttest_1samp(values.mean(axis=0), 0).pvalue)
    assert found.seed_share == 0


def test_where_only_seeds_differ_it_is_the_t_test_over_seeds():
    seeds = normal(5)
    found = estimate_mean([layout(np.tile(seeds[:, None], (1, 30)))])
    expected = stats.ttest_1samp(seeds, 0)
    assert (found.p, found.df, found.seed_share) == pytest.approx((expected.pvalue, 4, 1))
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_where_only_queries_differ_it_is_the_t_test_over_queries():
    queries = normal(40)
    found = estimate_mean([layout(np.tile(queries, (3, 1)))])
    assert (found.p, found.df) == pytest.approx((stats.ttest_1samp(queries, 0).pvalue, 39))


def test_with_fixed_seeds_it_is_the_t_test_over_queries_and_says_so():
    values = crossed(0)
    found = estimate_mean([layout(values)], sources="these seeds only")
    assert found.p == pytest.approx(stats.ttest_1samp(values.mean(axis=0), 0).pvalue)
    assert (found.sources, found.reason) == ("these seeds only", None)


def test_one_seed_is_marked_and_judged_by_its_queries():
    values = normal(1, 25)
    found = estimate_mean([layout(values)])
    assert (found.sources, found.reason, found.num_seeds) == ("these seeds only", ONE_SEED, 1)
    assert found.p == pytest.approx(stats.ttest_1samp(values[0], 0).pvalue)


def simulated(generator, kind):
    """Layouts that share seeds, queries, both or nothing, with strong effects of what they share."""
    seeds, queries = 0.3 * generator.normal(size=(3, 1)), 0.5 * generator.normal(size=8)
    rest = [0.2 * generator.normal(size=(3, 8)) for _ in range(2)]
    own_seeds = seeds if kind in ("seeds", "both") else 0.3 * generator.normal(size=(3, 1))
    own_queries = queries if kind in ("queries", "both") else 0.5 * generator.normal(size=8)
    return [
        layout(seeds + queries + rest[0], weight=1.0, seeds="s", queries="q"),
        layout(
            own_seeds + own_queries + rest[1],
            weight=-0.4,
            seeds="s" if kind in ("seeds", "both") else "other s",
            queries="q" if kind in ("queries", "both") else "other q",
        ),
    ]


@pytest.mark.parametrize("kind", ["seeds", "queries", "both", "nothing"])
def test_the_variance_is_that_of_the_sum_whatever_layouts_share(kind):
    generator = np.random.default_rng(1)
    replicates = [simulated(generator, kind) for _ in range(3000)]
    true = np.var([mean_of(layouts) for layouts in replicates])
    found = np.mean([combine(components_of(layouts)).variance for layouts in replicates])
    # the variance of 3000 normal means is known to 2.6 %
    assert found == pytest.approx(true, rel=0.1)


def test_a_sum_of_layouts_is_one_layout_where_they_share_both():
    one, other = crossed(0), crossed(10)
    together = estimate_mean([layout(one, weight=0.5), layout(other, weight=2.0)])
    alone = estimate_mean([layout(0.5 * one + 2 * other)])
    for name in ("value", "standard_error", "df", "p"):
        assert getattr(together, name) == pytest.approx(getattr(alone, name))


def test_without_variance_a_difference_has_no_p_and_no_difference_has_p_1():
    assert estimate_mean([layout(np.zeros((3, 5)))]).p == 1.0
    found = estimate_mean([layout(np.full((3, 5), 0.1))])
    assert (found.p, found.low, found.reason) == (None, None, NO_VARIANCE)
    assert found.value == pytest.approx(0.1)


def test_one_query_has_a_mean_and_no_interval():
    found = estimate_mean([layout(normal(3, 1))])
    assert (found.low, found.p) == (None, None)
    assert found.reason == "one query in 'q': its variance is unknown"


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ([], "at least one"),
        ([layout(np.full((2, 2), np.nan))], "no holes"),
        ([layout(normal(2, 3)), layout(normal(3, 3), queries="r")], "seeds 's': 2 in one layout and 3 in another"),
        ([layout(normal(4))], "is \\(seeds, queries\\)"),
    ],
)
def test_what_is_no_crossed_layout_is_refused(layouts, message):
    with pytest.raises(ValueError, match=message):
        estimate_mean(layouts)
