"""Table `seeds`: how scores and gains vary between seeds, and how many seeds a claim needs."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.seed_spread import seed_spread
from results.selection import select_result, select_trials
from results.statistics.power import MIN_SEEDS, POWER
from results.statistics.spread import DETECTABLE
from results.tables.gain_parts import (
    BOTH,
    CELL_BLOCK,
    OWN,
    cell_columns,
    compared_cells,
    one_seed_note,
    reason_notes,
    trained_note,
    trial_holes,
)
from results.tables.parts import fairness_lines, model_name, warning_notes
from results.tables.table import Column, Table, TableOptions


def build(collected: Collected, options: TableOptions) -> Table:
    """The spread between seeds.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    found = seed_spread(compared_cells(collected, collected.expected, options), options.baseline)
    shown = (
        select_result(found.with_columns(kind=pl.lit("train")), options.where).drop("kind") if found.height else found
    )
    rows = shown.with_columns(model_name())
    return Table(
        name="seeds",
        title=f"Spread between seeds, of scores and of gains against {options.baseline}",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=CELL_BLOCK,
        holes=trial_holes(collected, options),
        formula=(
            "std = standard deviation between seeds; err. seeds^2 + err. queries^2 + err. both^2 = variance of "
            "the mean gain"
        ),
        origin=BOTH,
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    return (
        *cell_columns(rows),
        Column(key="similarity", header="similarity"),
        Column(key="score", header="score", kind="score", origin=OWN),
        Column(key="score_std", header="std", kind="score", origin=OWN),
        Column(
            key="score_min", upper="score_max", header="lowest / highest", kind="share_pair", detail=True, origin=OWN
        ),
        Column(key="gain", header="gain", kind="points"),
        Column(key="seed_std", header="gain std", kind="score"),
        Column(key="seeds_error", header="err. seeds", kind="score"),
        Column(key="queries_error", header="err. queries", kind="score"),
        Column(key="rest_error", header="err. both", kind="score", detail=True),
        Column(key="num_seeds", header="seeds", kind="count", origin=OWN),
        Column(key="num_needed", header="needed", kind="count"),
    )


def _notes(rows: pl.DataFrame, options: TableOptions) -> Iterator[str]:
    yield from trained_note(rows)
    yield "Std: standard deviation between seeds of the score, and of the gain on the same queries, in points."
    yield (
        "Err.: what seeds, queries and both together bring to the standard error of the mean gain (two-way model, "
        "these data sets); a negative component counts as 0."
    )
    yield (
        f"Needed: the fewest seeds, at least {MIN_SEEDS}, that would see a gain of {100 * DETECTABLE:g} point with a "
        f"power of {POWER:.0%}, were all variance that of seeds. No claim rests on fewer than {MIN_SEEDS}."
    )
    short = rows.filter(pl.col("num_short") > 0).height
    if short:
        yield f"{short} of {rows['num_needed'].drop_nulls().len()} gains have fewer seeds than that."
    yield from reason_notes(rows, "reason", "spread", ["model", "init_regime", "group", "similarity"])
    yield from one_seed_note(rows["num_seeds"])
