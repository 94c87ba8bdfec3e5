"""How sharp the softmax of a training is: columns of trials at its start and end, statistics of probes before it.

Saturated queries hardly teach anything, whatever the similarity: gains and calls are read beside these numbers.
"""

import polars as pl

STATISTICS = ("saturated_share", "perplexity", "logit_std")  # see `trainers.training.diagnostics.SoftmaxNumbers`
SOFTMAX_COLUMNS = tuple(f"{when}_{name}" for name in STATISTICS for when in ("start", "end"))  # of schema TRIALS
PROBE_SOFTMAX_COLUMNS = tuple(f"{side}_{name}" for name in STATISTICS for side in ("qnorm", "dnorm"))


def probe_softmax(probes: pl.DataFrame) -> pl.DataFrame:
    """PROBE_SOFTMAX_COLUMNS of each probe: `probe_id` and the statistics of each side; null where it has none."""
    rows = probes.filter(pl.col("block") == "softmax")

    def found(column: str) -> pl.Expr:
        side, _, statistic = column.partition("_")
        is_wanted = (pl.col("similarity") == side) & (pl.col("statistic") == statistic)
        return pl.col("value").filter(is_wanted).first().alias(column)

    by_probe = rows.group_by("probe_id", maintain_order=True).agg(*map(found, PROBE_SOFTMAX_COLUMNS))
    return probes.select("probe_id").unique(maintain_order=True).join(by_probe, on="probe_id", how="left")
