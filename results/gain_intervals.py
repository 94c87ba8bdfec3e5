"""Intervals and p values of gains against a baseline, and their ratios: the two-way model of seeds and queries.

Every number is of trained checkpoints. `docs/statistics.md` says which interval speaks of what.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from results.compared import CELL_TYPES, Compared
from results.estimates import adjusted, interval_columns, interval_types
from results.statistics.corrections import Correction
from results.statistics.ratios import mean_of_ratios, ratio_of_means

_PREFIXES = ("gain", "new_gain", "ratio", "new_ratio", "mean_of_ratios")
_TYPES = {
    **CELL_TYPES,
    "similarity": pl.String,
    **{name: dtype for prefix in _PREFIXES for name, dtype in interval_types(prefix).items()},
    "mean_of_ratios": pl.Float64,
    "sources": pl.String,
}


def gain_intervals(cells: Iterable[Compared], baseline: str, *, correction: Correction = "holm") -> pl.DataFrame:
    """One row for each model, init regime, group and similarity that can be compared with the baseline.

    Columns: those of CELL_TYPES, `similarity`, and `interval_columns` of

    - `gain` (a difference, 0 to 1) for these data sets, `new_gain` for new ones,
    - `ratio` (of means, 0.1 is +10 %) and `new_ratio` likewise; absent, with the reason, where the baseline is near 0,
    - `mean_of_ratios`, whose value is a column of that name.

    `sources` says what was random, `adjusted_p` is `gain_p` adjusted over all rows. The baseline's own row is empty,
    but for the reason why no ratio to it has a meaning.
    """
    rows = [row for cell in cells for row in _rows(cell, baseline)]
    return adjusted(pl.DataFrame(rows, schema=_TYPES), "gain_p", "adjusted_p", correction)


def _rows(cell: Compared, baseline: str) -> Iterator[dict[str, Any]]:
    if cell.scores is None or baseline not in cell.scores.columns:
        return
    for similarity in cell.scores.columns:
        if similarity == baseline:  # only whether a ratio to it has a meaning
            refused = ratio_of_means(cell.scores, baseline, baseline)
            yield {
                **cell.cell,
                "similarity": baseline,
                "ratio_reason": refused.reason if refused.value is None else None,
            }
            continue
        gain = cell.gain(similarity, baseline)
        ratio = ratio_of_means(cell.scores, similarity, baseline)
        # On one data set both ratios are one quantity, of which Fieller's interval is the better.
        several = len(cell.scores.members) > 1
        means = mean_of_ratios(cell.scores, similarity, baseline) if several else ratio
        new = cell.gain(similarity, baseline, "new data sets")
        new_ratio = ratio_of_means(cell.scores, similarity, baseline, target="new data sets") if several else None
        yield {
            **cell.cell,
            "similarity": similarity,
            **interval_columns("gain", gain),
            **interval_columns("new_gain", new),
            **interval_columns("ratio", ratio),
            **interval_columns("new_ratio", new_ratio),
            **interval_columns("mean_of_ratios", means),
            "mean_of_ratios": means.value,
            "sources": gain.sources,
        }


_ROW = ["task", "family", "layers", "init_regime", "scale", "group", "measure"]
POOLED = "training data sets are pooled: how far numbers vary between them is no chance of seeds"


def with_intervals(rows: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """The rows of `gains.gains`, of one training data set, with their intervals; null where there are none.

    A relative gain against a baseline near 0 becomes null, an untrained checkpoint's too: `ratio_reason` says why.
    """
    near_zero = intervals.filter(pl.col("sources").is_null() & pl.col("ratio_reason").is_not_null())
    refused = near_zero.select(*_ROW, refused="ratio_reason")
    of_row = intervals.drop("training_data", "training_data_hash", "scale_mode", "scale_value")
    of_row = of_row.with_columns(kind=pl.lit("train"))
    joined = rows.join(of_row, on=[*_ROW, "kind", "similarity"], how="left", nulls_equal=True, maintain_order="left")
    joined = joined.join(refused, on=_ROW, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(
        gain_ratio=pl.when(pl.col("refused").is_null()).then("gain_ratio"),
        ratio_reason=pl.coalesce("refused", "ratio_reason"),
    ).drop("refused")
