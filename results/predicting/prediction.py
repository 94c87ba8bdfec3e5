"""What a predictor is and what it says: a call with its evidence, read off the rows of one probe."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

Side = Literal["qnorm", "dnorm"]
Call = Literal["qnorm", "dnorm", "undecided"]
OTHER: dict[Side, Side] = {"qnorm": "dnorm", "dnorm": "qnorm"}


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A call with its evidence: what was seen on each side, lowest to highest where it was seen more than once.

    `difference` is qnorm - dnorm, or what stands for it in a predictor that sees no sides; `low` and `high` bound all
    of its intervals. A call that the probe's rows do not allow is None, with the reason.
    """

    call: Call | None
    reason: str | None = None
    qnorm: tuple[float, float] | None = None
    dnorm: tuple[float, float] | None = None
    difference: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A rule. `predict` reads the rows of one probe, with those of its cell's pilots.

    Attributes:
        statistic: names what is shown of each side.
        rule: when which side is called.
        source: who says so, and of what; where the direction is our own reading, that it is.
        needs: what must have been run before.
        costs: what that takes.
        block: of the rows that it reads; a sweep without any has no use of the predictor.
        positive: the side that a difference above 0 calls.
    """

    name: str
    statistic: str
    rule: str
    source: str
    needs: str
    costs: str
    block: str
    positive: Side
    predict: Callable[[pl.DataFrame], Prediction]


def one_sided(bounds: Iterable[float | None], positive: Side) -> Call:
    """The side on which all bounds of intervals, and the values in them, lie; one that is absent decides nothing."""
    known = list(bounds)
    if not known or any(bound is None or not math.isfinite(bound) for bound in known):
        return "undecided"
    numbers = [bound for bound in known if bound is not None]
    if min(numbers) > 0:
        return positive
    return OTHER[positive] if max(numbers) < 0 else "undecided"


def call_of(rows: pl.DataFrame, *, statistic: str, positive: Side, absent: str) -> Prediction:
    """The call from rows of one statistic: those of each side, and of `qnorm-dnorm` with intervals.

    Without a difference it is undecided, since no further run would bring one; `absent` says why.
    """
    rows = rows.filter(pl.col("statistic") == statistic)
    difference = rows.filter(pl.col("similarity") == "qnorm-dnorm")
    if difference.is_empty():
        return Prediction(call="undecided", reason=absent)
    bounds = (bound for row in difference.select("low", "value", "high").rows() for bound in row)
    return Prediction(
        call=one_sided(bounds, positive),
        qnorm=_span(rows.filter(pl.col("similarity") == "qnorm")["value"]),
        dnorm=_span(rows.filter(pl.col("similarity") == "dnorm")["value"]),
        difference=_span(difference["value"]),
        low=_bound(difference["low"], min),
        high=_bound(difference["high"], max),
    )


def _span(values: pl.Series) -> tuple[float, float] | None:
    known = values.drop_nulls().to_list()
    return (min(known), max(known)) if known else None


def _bound(values: pl.Series, pick: Callable[[list[float]], float]) -> float | None:
    """The outermost of the bounds; None where one is absent, since it could lie anywhere."""
    return pick(values.to_list()) if values.len() and not values.null_count() else None
