"""Predictor: whether the untrained encoder gives relevant documents longer embeddings than irrelevant ones."""

import polars as pl

from results.predicting.prediction import Prediction, Predictor, one_sided

BLOCK, STATISTIC = "norms", "cohen_d"
ABSENT = "the training corpus has too few documents that are relevant to no training query"


def norm_distance(probe: pl.DataFrame) -> Prediction:
    """qnorm, which ranks by the document's norm, where Cohen's d is above 0, dnorm where it is below.

    d sees no sides: it stands in the place of their difference.
    """
    rows = probe.filter((pl.col("block") == BLOCK) & (pl.col("statistic") == STATISTIC))
    if rows.is_empty():
        return Prediction(call="undecided", reason=ABSENT)
    value, low, high = rows.select("value", "low", "high").row(0)
    call = one_sided((low, value, high), "qnorm")
    return Prediction(call=call, difference=(value, value), low=low, high=high)


NORM_DISTANCE = Predictor(
    name="cohen_d",
    statistic="Cohen's d",
    rule="qnorm where relevant documents of the training corpus are longer than irrelevant ones, dnorm where shorter",
    source=(
        "arXiv 2602.09229: over data sets, d of trained encoders correlates with qnorm's gain over cosine, and random "
        "ones, of d < 0, do better with dnorm; that the untrained encoder's d tells the side is our own reading"
    ),
    needs="the probe's embeddings, and 256 documents of the training corpus that are relevant to no training query",
    costs="one forward pass over these documents",
    block=BLOCK,
    positive="qnorm",
    predict=norm_distance,
)
