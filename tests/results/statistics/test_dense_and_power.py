"""Rows become whole dense arrays or are refused; power against simulation of Student's test."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from results.statistics.dense import dense_scores
from results.statistics.power import MIN_SEEDS, power_of, seeds_needed


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    places = [(c, s, q) for c in ("qnorm", "cosine", "dot") for s in (42, 0, 1337) for q in ("q10", "q9", "b")]
    frame = pl.DataFrame(places, schema=["column", "seed", "query_id"], orient="row")
    return frame.with_columns(value=pl.Series(generator.uniform(size=27))).sample(fraction=1, shuffle=True, seed=1)


def test_every_value_stands_at_its_place(rows):
    found = dense_scores(rows, ["cosine", "qnorm"])
    assert (found.columns, found.seeds, found.queries) == (("cosine", "qnorm"), (0, 42, 1337), ("b", "q10", "q9"))
    for place, value in np.ndenumerate(found.values_CSQ):
        column, seed, query = (
            axis[i] for axis, i in zip((found.columns, found.seeds, found.queries), place, strict=True)
        )
        assert rows.filter(column=column, seed=seed, query_id=query)["value"].to_list() == [value]


def test_a_hole_and_a_repeat_are_named(rows):
    hole = rows.filter(~((pl.col("column") == "qnorm") & (pl.col("seed") == 42) & (pl.col("query_id") == "q9")))
    with pytest.raises(
        ValueError, match="1 of 18 scores are missing or not finite, the first for qnorm, seed 42, query 'q9'"
    ):
        dense_scores(hole, ["cosine", "qnorm"])
    with pytest.raises(ValueError, match=r"2 rows for .*: which one counts"):
        dense_scores(pl.concat([rows, rows.head(1)]), ["cosine", "qnorm", "dot"])
    with pytest.raises(ValueError, match="no row of learnable"):
        dense_scores(rows, ["learnable"])


@pytest.mark.parametrize(("num_seeds", "gain"), [(3, 2.0), (5, 1.0), (10, 1.0)])
def test_power_is_how_often_students_test_sees_the_gain(num_seeds, gain):
    samples = gain + np.random.default_rng(0).normal(size=(20_000, num_seeds))
    seen = np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05)
    assert power_of(num_seeds, gain, 1.0) == pytest.approx(seen, abs=0.015)


def test_seeds_needed_are_the_fewest_with_that_power():
    for gain in (0.5, 1.0, 2.0):
        num = seeds_needed(gain, 1.0)
        assert power_of(num - 1, gain, 1.0) < 0.8 <= power_of(num, gain, 1.0)
    assert seeds_needed(100.0, 1.0) == MIN_SEEDS
    assert power_of(10, 50.0, 1.0) == 1.0
    assert seeds_needed(1e-6, 1.0) is None
