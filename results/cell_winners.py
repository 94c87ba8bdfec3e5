"""The best similarity of each model, init regime and group, and whether it can be told from the second."""

from collections.abc import Sequence

import polars as pl

from results.compared import CELL_TYPES, Compared
from results.estimates import FIXED_SEEDS, adjusted, interval_columns, interval_types
from results.statistics.corrections import Correction
from results.statistics.estimate import LEVEL
from results.statistics.groups import group_means
from results.statistics.winners import winner_of

_TYPES = {
    **CELL_TYPES,
    **dict.fromkeys(("best", "second"), pl.String),
    **dict.fromkeys(("best_score", "second_score", "lead"), pl.Float64),
    **{name: dtype for prefix in ("lead", "new_lead") for name, dtype in interval_types(prefix).items()},
    "sources": pl.String,
    **dict.fromkeys(("num_compared", "num_seeds", "num_data_sets"), pl.Int64),
    **dict.fromkeys(("best_trial_ids", "second_trial_ids", "not_compared"), pl.String),
}


def cell_winners(cells: Sequence[Compared], *, correction: Correction = "holm") -> pl.DataFrame:
    """One row for each model, init regime and group; only with `not_compared` where no two can be compared.

    Columns: those of CELL_TYPES, `best`, `second`, their scores, the `lead` (0 to 1) with `interval_columns` for these
    data sets and, as `new_lead`, for new ones, `adjusted_p` over all rows, and `told`: 'yes', 'no', or 'these seeds
    only' where the lead of one seed's checkpoints can be told; null without a p. `not_compared` are similarities with
    other seeds or missing rows, and why.
    """
    frame = adjusted(
        pl.DataFrame([_row(cell) for cell in cells], schema=_TYPES),
        "lead_p",
        "adjusted_p",
        correction,
    )
    is_told = pl.col("adjusted_p") <= 1 - LEVEL
    of_seeds = pl.when(pl.col("sources") == FIXED_SEEDS).then(pl.lit(FIXED_SEEDS)).otherwise(pl.lit("yes"))
    return frame.with_columns(told=pl.when(is_told).then(of_seeds).when(~is_told).then(pl.lit("no")))


def _row(cell: Compared) -> dict[str, object]:
    group = cell.scores
    if group is None or len(group.columns) < 2:
        return {**cell.cell, "not_compared": cell.why_not(*cell.similarities) or "only one similarity is trained here"}
    found, new = winner_of(group), winner_of(group, target="new data sets")
    means = dict(zip(group.columns, group_means(group).tolist(), strict=True))
    return {
        **cell.cell,
        "best": found.best,
        "second": found.second,
        "best_score": means[found.best],
        "second_score": means[found.second],
        "lead": found.lead.value,
        **interval_columns("lead", found.lead),
        **interval_columns("new_lead", new.lead),
        "sources": found.lead.sources,
        "num_compared": len(group.columns),
        "num_seeds": found.lead.num_seeds,
        "num_data_sets": len(group.members),
        "best_trial_ids": " ".join(cell.trial_ids[found.best]),
        "second_trial_ids": " ".join(cell.trial_ids[found.second]),
        "not_compared": cell.why_not(*cell.similarities) or None,
    }
