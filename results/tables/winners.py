"""Table `winners`: the best similarity of each model, init regime and group, and its lead over the second."""

from collections.abc import Iterator

import polars as pl

from results.cell_winners import cell_winners
from results.collect import Collected
from results.estimates import with_marks
from results.selection import select_trials
from results.tables.gain_parts import (
    INTERVAL,
    TWO_WAY,
    cell_columns,
    comparisons,
    one_seed_note,
    reason_notes,
    target_note,
    trained_note,
    trial_holes,
)
from results.tables.parts import correction_name, fairness_lines, model_name, no_paired_test, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions


def build(collected: Collected, options: TableOptions) -> Table:
    """The winners; `options.baseline` changes nothing.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    cells = comparisons(collected, collected.expected, options).like()
    rows = with_marks(cell_winners(cells, correction=options.correction)).with_columns(model_name())
    return Table(
        name="winners",
        title="Best similarity, and its lead over the second",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=("task", "training_data", "model", "init_regime", "scale"),
        holes=trial_holes(collected, options),
        formula="lead = score of the best similarity - score of the second",
        origin=Origin(trials=("best_trial_ids", "second_trial_ids")),
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    return (
        *cell_columns(rows),
        Column(key="best", header="best"),
        Column(key="best_score", header="score", kind="score"),
        Column(key="second", header="second"),
        Column(key="second_score", header="its score", kind="score"),
        Column(key="lead", header="lead", kind="points", marks="mark"),
        Column(key="mark", header="sig."),
        Column(key="lead_low", upper="lead_high", header=INTERVAL, kind="points_interval"),
        Column(key="new_lead_low", upper="new_lead_high", header="new data sets", kind="points_interval", detail=True),
        Column(key="adjusted_p", header="adj. p", kind="p", decimals=3, reason="lead_reason"),
        Column(key="told", header="can be told"),
        Column(key="num_compared", header="of", kind="count", detail=True),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, options: TableOptions) -> Iterator[str]:
    yield from trained_note(rows)
    yield target_note()
    num_tests = rows["lead_p"].drop_nulls().len()
    yield (
        f"Can be told: p of the lead, {correction_name(options)}-adjusted over the {num_tests} leads, is at most 0.05. "
        "That holds although the data chose the two. 'No' means undecided, not equal. Compared is what has the seeds "
        "that most similarities of the cell have, whatever the baseline of other tables."
    )
    yield from no_paired_test(options, TWO_WAY)
    place = ["model", "init_regime", "group"]
    yield from reason_notes(
        rows.filter(pl.col("lead").is_not_null() & pl.col("lead_low").is_null()), "lead_reason", "interval", place
    )
    yield from reason_notes(rows, "not_compared", "part in this", place)
    yield from one_seed_note(rows["num_seeds"])
