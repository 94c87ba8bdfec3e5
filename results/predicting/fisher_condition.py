"""The study's predictor: the condition number of the Fisher information."""

import polars as pl

from results.predicting.prediction import Prediction, Predictor, call_of

BLOCK = "embedding"


def fisher_condition(probe: pl.DataFrame) -> Prediction:
    """The side whose Fisher information has the smaller condition number (arXiv 2602.09229).

    Read on the block 'embedding' (sum of the query's and the document's H x H matrices), in one subspace shared by the
    similarities, over a grid of its dimension r. It is a call only if log10 kappa(qnorm) - log10 kappa(dnorm) has one
    sign at every r and no interval holds 0.
    """
    return call_of(
        probe.filter(pl.col("block") == BLOCK),
        statistic="log10_kappa",
        positive="dnorm",
        absent=f"the probe has no log10_kappa difference of block '{BLOCK}'",  # where every query is saturated, say
    )


FISHER_CONDITION = Predictor(
    name="fisher_condition",
    statistic="log10 kappa",
    rule="the side with the smaller condition number of the Fisher information in the embedding space",
    source="arXiv 2602.09229, which gives the rule; the definition is ours (docs/fisher.md)",
    needs="the probe's block 'embedding'",
    costs="one forward pass over the probe's texts, and closed forms",
    block=BLOCK,
    positive="dnorm",
    predict=fisher_condition,
)
