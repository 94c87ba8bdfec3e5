"""The rule of a recommendation: one side only where every predictor calls it, and how far that is known."""

from dataclasses import replace
from itertools import product

import polars as pl
import pytest

from results.recommendation import Called, calls_of, for_symmetric_task, recommend
from results.track_record import TrackRecord


def record(num_hits, num_decided=10, low=0.0):
    return TrackRecord(
        num_cells=12, num_called=11, num_decided=num_decided, num_hits=num_hits, num_families=3, low=low, high=1.0
    )


GOOD, POOR = record(10, low=0.69), record(5, low=0.19)


def called(call, *, predictor="fisher_condition", scale="fixed(20)", known=None):
    return Called(
        predictor=predictor,
        statistic="log10 kappa",
        scale=scale,
        call=call,
        reason=None,
        difference=(-0.2, -0.1),
        interval=(-0.3, -0.05),
        saturated=(0.5, 0.6),
        record=known,
    )


def test_a_symmetric_task_takes_cosine_and_says_why():
    found = for_symmetric_task()
    assert (found.similarity, found.strength) == ("cosine", "by symmetry")
    assert "which of them comes first" in found.why


@pytest.mark.parametrize("calls", list(product(("qnorm", "dnorm", "undecided", None), repeat=3)))
def test_a_side_is_recommended_exactly_where_all_that_were_asked_call_it(calls):
    found = recommend([called(call, predictor=f"p{place}") for place, call in enumerate(calls)])
    asked = [call for call in calls if call is not None]
    if asked and set(asked) in ({"qnorm"}, {"dnorm"}):
        assert (found.similarity, found.strength) == (asked[0], "unproven")
    else:
        assert (found.similarity, found.strength) == ("learnable", "undecided")
    assert len(found.calls) == 3


@pytest.mark.parametrize(
    ("records", "strength"),
    [((GOOD, GOOD), "supported"), ((GOOD, POOR), "unproven"), ((GOOD, None), "unproven"), ((None, None), "unproven")],
)
def test_it_is_supported_where_each_predictor_was_right_more_often_than_a_coin(records, strength):
    calls = [called("dnorm", predictor=f"p{place}", known=known) for place, known in enumerate(records)]
    found = recommend(calls)
    assert (found.similarity, found.strength) == ("dnorm", strength)
    assert ("train learnable beside it" in found.why) == (strength == "unproven")


def test_the_reason_names_who_disagrees():
    found = recommend([called("qnorm"), called("dnorm", scale="matched(20)")])
    assert "fisher_condition at fixed(20) calls qnorm; fisher_condition at matched(20) calls dnorm" in found.why
    found = recommend([called("qnorm"), called("undecided", predictor="pilot")])
    assert "pilot at fixed(20) cannot tell the two apart" in found.why


def test_a_predictor_that_saw_nothing_has_no_part_in_it():
    blind = replace(called("undecided", predictor="cohen_d"), difference=None, interval=None, reason="no document")
    assert recommend([called("qnorm"), blind]).similarity == "qnorm"
    found = recommend([blind])
    assert (found.similarity, found.strength) == ("learnable", "undecided")
    assert "no predictor could be asked" in found.why


def test_a_good_record_does_not_decide_what_is_undecided():
    assert recommend([called("undecided", known=GOOD)]).similarity == "learnable"


def test_calls_carry_their_evidence_and_the_record_of_their_own_scale():
    row = {"predictor": "p", "statistic": "s", "scale": "fixed(20)", "call": "qnorm", "reason": None, "low": None}
    row |= {"difference_min": -0.2, "difference_max": -0.1, "high": None}
    row |= {"qnorm_saturated_share": 0.25, "dnorm_saturated_share": 0.5}
    types = {"low": pl.Float64, "high": pl.Float64, "reason": pl.String}
    rows = pl.DataFrame([row, row | {"scale": "matched(20)"}], schema_overrides=types)
    first, second = calls_of(rows, {("p", "fixed(20)"): GOOD})
    assert (first.difference, first.interval, first.saturated) == ((-0.2, -0.1), None, (0.25, 0.5))
    assert (first.record, second.record) == (GOOD, None)
