"""What each predictor says of a cell under each scale, and of random weights over their seeds: calls and their spread.

All from the rows of `results.fisher_check`, whatever was observed: a call is the same in every group.
"""

from typing import Any

import polars as pl

from results.softmax import PROBE_SOFTMAX_COLUMNS

CELL = ["predictor", "training_data", "family", "layers", "init_regime", "scale"]
ANSWERS = ("qnorm", "dnorm", "undecided")
_SATURATED = tuple(name for name in PROBE_SOFTMAX_COLUMNS if name.endswith("saturated_share"))


def call_spread(check: pl.DataFrame) -> pl.DataFrame:
    """One row per predictor, cell and scale; scales of one cell follow each other.

    Columns: CELL, `statistic`, `num_probes` (one, or one for each seed of random weights), how many of them called
    `num_qnorm`, `num_dnorm`, `num_undecided` and could not be told `num_unknown`; `answer`, the one that most gave (the
    first of ANSWERS of as many: none has more), and `agreement`, its share; `difference_min` and `difference_max` over
    all probes, `spread`, the deviation over seeds of the middle of their differences (null of a single one); the means
    of `qnorm_saturated_share` and `dnorm_saturated_share`; `across_scales`, 'same' or 'differs' where the cell has
    several scales with an answer; `probe_ids`.
    """
    probes = check.unique([*CELL, "seed"], keep="first", maintain_order=True)
    middle = (pl.col("difference_min") + pl.col("difference_max")) / 2
    counts = {f"num_{answer}": (pl.col("call") == answer).sum() for answer in ANSWERS}
    rows = probes.group_by(CELL, maintain_order=True).agg(
        pl.col("statistic").first(),
        num_probes=pl.len(),
        **counts,
        num_unknown=pl.col("call").null_count(),
        difference_min=pl.col("difference_min").min(),
        difference_max=pl.col("difference_max").max(),
        spread=middle.std(),
        **{name: pl.col(name).mean() for name in _SATURATED},
        probe_ids=pl.col("probe_id").drop_nulls().str.join("; "),
    )
    given = rows.select(*(f"num_{answer}" for answer in ANSWERS)).rows()
    found = rows.with_columns(
        pl.Series("answer", [_answer(numbers) for numbers in given], dtype=pl.String),
        pl.Series("agreement", [_agreement(numbers) for numbers in given], dtype=pl.Float64),
    )
    cell = [name for name in CELL if name != "scale"]
    answers = pl.col("answer").drop_nulls()
    scales = pl.when(answers.len().over(cell) > 1).then(
        pl.when(answers.n_unique().over(cell) == 1).then(pl.lit("same")).otherwise(pl.lit("differs"))
    )
    ordered = found.with_columns(across_scales=scales).with_row_index("place")
    return ordered.sort(pl.col("place").min().over(cell), maintain_order=True).drop("place")


def _answer(numbers: tuple[Any, ...]) -> str | None:
    """The answer that most probes gave."""
    return ANSWERS[numbers.index(max(numbers))] if sum(numbers) else None


def _agreement(numbers: tuple[Any, ...]) -> float | None:
    return max(numbers) / sum(numbers) if sum(numbers) else None
