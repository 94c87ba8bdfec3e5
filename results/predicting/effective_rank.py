"""Predictor: how many directions of the embedding space each similarity sees texts spread over."""

import polars as pl

from results.predicting.prediction import Prediction, Predictor, call_of

BLOCK = "space"


def effective_rank(probe: pl.DataFrame) -> Prediction:
    """The side that sees embeddings of the larger effective rank: see `trainers.fisher.space`."""
    return call_of(
        probe.filter(pl.col("block") == BLOCK),
        statistic="log10_effective_rank",
        positive="qnorm",
        absent="the probe's embeddings do not vary",
    )


EFFECTIVE_RANK = Predictor(
    name="effective_rank",
    statistic="log10 effective rank",
    rule="the side that sees embeddings of the larger effective rank",
    source=(
        "RankMe (arXiv 2210.02885): encoders whose embeddings have a larger effective rank do better downstream; that "
        "this tells similarities of one encoder apart is our own reading"
    ),
    needs="the probe's embeddings",
    costs="nothing beside the probe's forward pass: eigenvalues of H x H covariances",
    block=BLOCK,
    positive="qnorm",
    predict=effective_rank,
)
