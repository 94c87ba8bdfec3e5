"""How often calls were right so far: hits over training data sets, with scipy's exact interval."""

import polars as pl
import pytest
from scipy import stats

from results.fisher_check import fisher_check
from results.statistics.binary_outcomes import exact_interval
from results.track_record import track_records
from tests.results.test_fisher_summary import CELLS, check_of


@pytest.mark.parametrize(("right", "num"), [(0, 1), (0, 12), (4, 5), (7, 9), (12, 12), (51, 100)])
def test_the_interval_is_that_of_clopper_and_pearson(right, num):
    expected = stats.binomtest(right, num).proportion_ci(0.95, method="exact")
    assert exact_interval(right, num) == pytest.approx((expected.low, expected.high))


def test_of_no_unit_nothing_is_known():
    assert exact_interval(0, 0) == (0.0, 1.0)


def test_hits_of_decided_cells_on_the_primary_group_are_counted_over_training_data():
    other = check_of(CELLS).with_columns(training_data=pl.lit("nq"))
    secondary = check_of(CELLS, group="bright", is_primary=False)
    matched = check_of(CELLS[:1]).with_columns(scale=pl.lit("matched(20)"))
    found = track_records(pl.concat([check_of(CELLS), other, secondary, matched]))
    assert set(found) == {("fisher_condition", "fixed(20)"), ("fisher_condition", "matched(20)")}
    record = found["fisher_condition", "fixed(20)"]
    assert (record.num_cells, record.num_called, record.num_decided, record.num_hits) == (14, 12, 10, 8)
    assert record.num_families == 3  # a, b and c, whatever they were trained on
    assert (record.low, record.high) == pytest.approx(stats.binomtest(8, 10).proportion_ci(0.95, method="exact"))
    assert not record.beats_a_coin  # 0.44


def test_one_more_hit_may_beat_a_coin():
    [record] = track_records(check_of([CELLS[0]] * 10)).values()
    assert (record.num_hits, record.num_decided, record.beats_a_coin) == (10, 10, True)


def test_of_a_real_check_the_record_says_what_its_summary_says(small):
    check = fisher_check(
        small.probes, small.data_set_scores, small.query_scores, small.expected, primary_groups=["out_of_domain"]
    )
    [(place, record)] = track_records(check).items()
    assert place == ("fisher_condition", "fixed(20)")
    decided = check.filter(pl.col("is_primary") & pl.col("verdict").is_in(["hit", "miss"]))
    assert record.num_decided == decided.height
    assert record.num_hits == (decided["verdict"] == "hit").sum()
