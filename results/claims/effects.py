"""Effect sizes of document norms as claims take them: one Cohen's d for each training and data set."""

import polars as pl

from results.claims.contrasts import EFFECT_TYPES
from results.magnitude import AGAINST
from results.scores import by_data_set, mean_if_whole


def effect_sizes(statistics: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    """Columns EFFECT_TYPES of the trained rows of `expected`; a data set of several parts is their mean.

    Args:
        statistics: one row per trial, data set (`data_set`, `data_hash`, `split`) and kind of `irrelevant` documents,
            with `cohen_d`. Trials and data sets without one are left out, and so is a whole that lacks a part.
        expected: that of `Collected`.
    """
    key = ["trial_id", "data_set", "data_hash", "split"]
    trained = by_data_set(expected.filter(pl.col("kind") == "train"))
    against = statistics.filter(pl.col("irrelevant") == AGAINST).select(*key, "cohen_d")
    found = trained.select(*key, name="group").unique(maintain_order=True).join(against, on=key, how="left")
    wholes = found.group_by("trial_id", "name", maintain_order=True).agg(d=mean_if_whole("cohen_d"))
    return wholes.drop_nulls("d").rename({"name": "data_set"}).select(*EFFECT_TYPES)
