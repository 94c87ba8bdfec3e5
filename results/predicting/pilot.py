"""Predictor: the side that a short training of each favours."""

import polars as pl

from results.pilots import PILOT
from results.predicting.prediction import Prediction, Predictor, call_of


def pilot(probe: pl.DataFrame) -> Prediction:
    """The side whose pilot scores higher on development queries."""
    rows = probe.filter(pl.col("block") == PILOT)
    if rows.filter(pl.col("similarity") == "qnorm-dnorm").is_empty():
        return Prediction(call=None, reason="its pilots are missing")
    return call_of(rows, statistic="score", positive="qnorm", absent="")


PILOT_GAIN = Predictor(
    name="pilot",
    statistic="pilot's nDCG@10",
    rule="the side that scores higher on development queries after a few steps of training",
    source="the usual practice of short runs; that a few steps order the sides as many do is our own reading",
    needs="pilots of both sides (the sweep file's `pilot`)",
    costs="two trainings of `pilot.steps` steps, and ranking a pool of development documents with each",
    block=PILOT,
    positive="qnorm",
    predict=pilot,
)
