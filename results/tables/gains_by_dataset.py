"""Table `gains_by_dataset`: scores and gains against the baseline on each data set."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.scores import by_data_set
from results.selection import select_trials
from results.tables.gain_parts import (
    BEFORE,
    BOTH,
    CELL_BLOCK,
    INTERVAL,
    OWN,
    TWO_WAY,
    cell_columns,
    gain_rows,
    mark_note,
    one_seed_note,
    reason_notes,
    trained_note,
    trial_holes,
)
from results.tables.parts import fairness_lines, no_paired_test, parts_note, scale_note, warning_notes
from results.tables.table import Column, Table, TableOptions


def build(collected: Collected, options: TableOptions) -> Table:
    """The gain table of data sets; one in several groups stands once. Raises what `results.gains.gains` raises."""
    single = by_data_set(collected.expected)
    rows = gain_rows(collected, single, options).join(groups_of(collected, single), on="group", how="left")
    return Table(
        name="gains_by_dataset",
        title=f"Gains against {options.baseline} by data set",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, collected, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=CELL_BLOCK,
        rank="rank",
        holes=trial_holes(collected, options),
        formula="gain = score - baseline's score on the data set; gain (%) = gain / baseline's score",
        origin=BOTH,
    )


def groups_of(collected: Collected, single: pl.DataFrame) -> pl.DataFrame:
    """`groups`, in which each data set ('group' of `single`) counts, with commas between."""
    key = ["trial_id", "data_set", "data_hash", "split", "score_similarity"]
    label = single.select(*key, label="group")
    joined = collected.expected.select(*key, "group").join(label, on=key)
    listed = pl.col("group").unique(maintain_order=True).str.join(", ")
    return joined.group_by("label", maintain_order=True).agg(groups=listed).rename({"label": "group"})


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    measures = rows["measure"].unique()
    return (
        *cell_columns(rows, "data set"),
        Column(key="groups", header="groups", detail=True),
        Column(key="label", header="similarity"),
        Column(
            key="score", header=measures[0] if measures.len() == 1 else "score", kind="score", ranked=True, origin=OWN
        ),
        Column(key="gain", header="gain", kind="points", marks="mark"),
        Column(key="mark", header="sig."),
        Column(key="gain_low", upper="gain_high", header=INTERVAL, kind="points_interval"),
        Column(key="gain_ratio", header="gain (%)", kind="percent", decimals=1, reason="ratio_reason"),
        Column(
            key="ratio_low",
            upper="ratio_high",
            header="gain (%) interval",
            kind="points_interval",
            decimals=1,
            detail=True,
        ),
        Column(key="untrained_score", header="untrained", kind="score", origin=BEFORE),
        Column(key="num_seeds", header="seeds", kind="count", origin=OWN),
    )


def _notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    trained = rows.filter(pl.col("kind") == "train")
    yield from trained_note(trained)
    yield from scale_note(trained["scale"].unique().sort().to_list())
    yield f"Gain: points against {options.baseline} on the data set; in percent relative to {options.baseline} there."
    yield f"{INTERVAL}: two-way model of seeds crossed with queries, for this data set."
    yield from parts_note(collected.record.evaluations)
    yield from mark_note(options, rows["adjusted_p"].drop_nulls().len(), "gains")
    yield from no_paired_test(options, TWO_WAY)
    place = ["model", "init_regime", "group"]
    near_zero = trained.filter(pl.col("gain").is_not_null() & pl.col("gain_ratio").is_null())
    yield from reason_notes(trained, "reason", "number", place)
    yield from reason_notes(near_zero, "ratio_reason", "gain (%)", place)
    unknown = trained.filter(pl.col("gain").is_not_null() & pl.col("gain_low").is_null())
    yield from reason_notes(unknown, "gain_reason", "interval", place)
    yield from one_seed_note(trained["num_seeds"])
