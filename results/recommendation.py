"""Which similarity to train with, from what predictors call and how often they were right: the rule, and its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from results.observed_sides import SIDES
from results.track_record import Place, TrackRecord

Strength = Literal["by symmetry", "supported", "unproven", "undecided"]
DEFAULT = "learnable"  # it starts between all similarities, and can go to either side
SYMMETRIC = "cosine"


@dataclass(frozen=True, kw_only=True)
class Called:
    """One predictor's call at one scale, its evidence, and its record so far; a call that is None was not asked.

    `difference` is qnorm minus dnorm, lowest to highest over what the predictor looks at, `interval` holds all of
    their intervals; `saturated` are shares (0 to 1) under qnorm and dnorm.
    """

    predictor: str
    statistic: str
    scale: str
    call: str | None
    reason: str | None
    difference: tuple[float, float] | None
    interval: tuple[float, float] | None
    saturated: tuple[float, float] | None
    record: TrackRecord | None


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to train with, how far that is known, and why.

    'supported': every predictor calls it, and each was right more often than a coin; 'unproven': they call it, and
    nothing shows that they are; 'undecided': they do not all call one side.
    """

    similarity: str
    strength: Strength
    why: str
    calls: tuple[Called, ...] = ()


def for_symmetric_task() -> Recommendation:
    """Of a task whose two texts can be swapped no predictor is asked."""
    return Recommendation(
        similarity=SYMMETRIC,
        strength="by symmetry",
        why=(
            "the task is symmetric: the score of two texts must not depend on which of them comes first. qnorm and "
            "dnorm normalise one side alone, so that it does, and lost about 40 points of Spearman on STS-B "
            "(Contriever .413 and .371 against .788 of cosine; arXiv 2602.09229). Of the symmetric ones dot was no "
            "better there (.784), and cosine needs no care with norms"
        ),
    )


def recommend(calls: Sequence[Called]) -> Recommendation:
    """The side that all predictors call; `learnable` where they do not agree or one of them is undecided.

    One that saw no difference at all, since what it reads is not there, has no part in it.
    """
    asked = [called for called in calls if called.call in SIDES or (called.call and called.difference)]
    by_side = {side: [called for called in asked if called.call == side] for side in SIDES}
    sides = [side for side in SIDES if by_side[side]]
    if len(sides) == 1 and len(by_side[sides[0]]) == len(asked):
        return _agreed(sides[0], asked, calls)
    if not asked:
        why = "no predictor could be asked"
    elif not sides:
        why = "no predictor can tell qnorm and dnorm apart here"
    elif len(sides) == 2:
        why = f"the predictors contradict each other: {'; '.join(f'{_names(by_side[s])} calls {s}' for s in sides)}"
    else:
        others = [called for called in asked if called.call not in SIDES]
        why = f"{_names(by_side[sides[0]])} calls {sides[0]}, but {_names(others)} cannot tell the two apart"
    more = (
        f"; {DEFAULT} starts between both (each gamma at 0.5), can move to either, and was within 1.1 points of the "
        "best fixed similarity on every published group for Contriever and RetroMAE (arXiv 2602.09229)"
    )
    return Recommendation(similarity=DEFAULT, strength="undecided", why=why + more, calls=tuple(calls))


def calls_of(rows: pl.DataFrame, records: Mapping[Place, TrackRecord]) -> list[Called]:
    """The calls in rows of `results.tables.predictions.prediction_rows`, each with its predictor's record."""
    return [
        Called(
            predictor=row["predictor"],
            statistic=row["statistic"],
            scale=row["scale"],
            call=row["call"],
            reason=row["reason"],
            difference=_pair(row["difference_min"], row["difference_max"]),
            interval=_pair(row["low"], row["high"]),
            saturated=_pair(row["qnorm_saturated_share"], row["dnorm_saturated_share"]),
            record=records.get((row["predictor"], row["scale"])),
        )
        for row in rows.iter_rows(named=True)
    ]


def _agreed(side: str, asked: Sequence[Called], calls: Sequence[Called]) -> Recommendation:
    proven = [called for called in asked if called.record and called.record.beats_a_coin]
    every = "the one predictor that was asked calls" if len(asked) == 1 else f"all {len(asked)} calls are for"
    if len(proven) == len(asked):
        why = f"{every} {side}, and in the given sweeps each predictor was right more often than a coin"
        return Recommendation(similarity=side, strength="supported", why=why, calls=tuple(calls))
    unproven = _names([called for called in asked if called not in proven])
    why = (
        f"{every} {side}, but nothing given here shows that {unproven} does better than a coin: train {DEFAULT} beside"
    )
    return Recommendation(similarity=side, strength="unproven", why=f"{why} it", calls=tuple(calls))


def _names(calls: Sequence[Called]) -> str:
    return ", ".join(dict.fromkeys(f"{called.predictor} at {called.scale}" for called in calls))


def _pair(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
