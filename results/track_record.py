"""How often a predictor's calls were right so far: hits of decided cells, with an exact interval."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from results.fisher_summary import COIN, fisher_summary
from results.observed_sides import SIDES
from results.statistics.binary_outcomes import exact_interval

Place = tuple[str, str]  # a predictor and a scale: a call at another softmax is another statement


@dataclass(frozen=True, kw_only=True)
class TrackRecord:
    """Cells of one predictor at one scale in which both sides were trained and evaluated on the primary groups.

    Attributes:
        num_cells: all of them.
        num_called: those in which the predictor called a side.
        num_decided: those of them in which a side won.
        num_hits: those of them that were called right.
        num_families: families of the decided ones, whose cells are not independent: an interval that takes every cell
            as one observation is too narrow where a family has several.
        low, high: of the probability that a decided call is right, 95 %.
    """

    num_cells: int
    num_called: int
    num_decided: int
    num_hits: int
    num_families: int
    low: float
    high: float

    @property
    def beats_a_coin(self) -> bool:
        """Whether more than every second call is right, as far as these cells can tell."""
        return self.low > 0.5


def track_records(check: pl.DataFrame) -> Mapping[Place, TrackRecord]:
    """From the rows of `results.fisher_check`, over all training data sets.

    Where a sweep's primary groups have no common mean there is no primary verdict, and no record.
    """
    primary = check.filter(pl.col("is_primary"))
    summary = fisher_summary(primary).filter(pl.col("opponent") == COIN)
    records: dict[Place, TrackRecord] = {}
    for (predictor, scale), rows in summary.group_by(["predictor", "scale"], maintain_order=True):
        counts = {name: int(rows[name].sum()) for name in ("num_cells", "num_called", "num_decided", "num_hits")}
        low, high = exact_interval(counts["num_hits"], counts["num_decided"])
        decided = primary.filter(
            (pl.col("predictor") == predictor) & (pl.col("scale") == scale),
            pl.col("call").is_in(SIDES) & pl.col("winner").is_in(SIDES) & pl.col("gain").is_not_null(),
        )
        families = decided["family"].n_unique() if decided.height else 0
        records[str(predictor), str(scale)] = TrackRecord(**counts, num_families=families, low=low, high=high)
    return records
