"""Predictor of the study's earlier version: how much more query norms vary under dnorm than under dot."""

import polars as pl

from results.pilots import PILOT_NORMS
from results.predicting.prediction import Prediction, Predictor, one_sided


def query_norm_variation(probe: pl.DataFrame) -> Prediction:
    """Say dnorm where query norms vary more (deviation over mean) under dnorm than under dot, qnorm where less.

    An untrained encoder has the same norms under every similarity: the ratio is 1 before any training, so it is taken
    of pilots. Its logarithm sees no sides: it stands in the place of their difference.
    """
    rows = probe.filter(pl.col("block") == PILOT_NORMS)
    ratio = rows.filter(pl.col("statistic") == "log10_cv_ratio")
    if ratio.is_empty() and rows.height:  # both have ended: no further run would bring a ratio
        return Prediction(call="undecided", reason="the query norms of a pilot do not vary, so that there is no ratio")
    if ratio.is_empty():
        return Prediction(call=None, reason="its pilots under dnorm and dot are missing")
    value, low, high = ratio.select("value", "low", "high").row(0)
    call = one_sided((low, value, high), "dnorm")
    return Prediction(call=call, difference=(value, value), low=low, high=high)


QUERY_NORM_VARIATION = Predictor(
    name="query_norm_variation",
    statistic="log10 CV ratio",
    rule="dnorm where query norms vary more under dnorm than under dot after a few steps of training, qnorm where less",
    source=(
        "an earlier version of arXiv 2602.09229: a high ratio of the query norm's coefficient of variation under dnorm "
        "and dot speaks for dnorm; it gives no threshold, and 1 is our own reading"
    ),
    needs="pilots under qnorm, dnorm and dot (the sweep file's `pilot.similarities`)",
    costs="one training of `pilot.steps` steps beside those of `pilot`",
    block=PILOT_NORMS,
    positive="dnorm",
    predict=query_norm_variation,
)
