"""Table `sts`: Spearman correlations of scored pairs per model, init regime, data set and similarity, both orders."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.selection import select_trials
from results.sts import sts_scores
from results.sts_symmetry import CELL, symmetry_losses
from results.tables.parts import (
    correction_header,
    correction_name,
    fairness_lines,
    missing_lines,
    model_name,
    no_paired_test,
    parts_note,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN

_BEFORE = Origin(trials=("untrained_trial_ids",), data="data set")


def build(collected: Collected, options: TableOptions) -> Table:
    """The table of scored pairs. Raises what `results.sts.sts_scores` raises."""
    found = sts_scores(collected.correlations, collected.expected_sts, where=options.where, pool=options.pool)
    mean = pl.format("mean of {}", "group")
    losses = symmetry_losses(
        collected.scored_pairs(), collected.expected_sts, where=options.where, correction=options.correction
    )
    on = [*CELL, "data_set", "split"]
    with_losses = found.join(losses, on=on, how="left", nulls_equal=True, maintain_order="left")
    rows = with_losses.with_columns(model_name(), shown_data_set=pl.coalesce("data_set", mean))
    return Table(
        name="sts",
        title="Scored pairs of texts: Spearman correlation with the raters",
        columns=_columns(rows, options),
        rows=rows,
        notes=(
            *_notes(rows, options),
            *_parts(collected),
            *fairness_lines(collected, select_trials(collected.expected_sts, options.where)),
            *warning_notes(collected),
        ),
        block=("task", "model", "init_regime", "group", "shown_data_set"),
        rank="rank",
        holes=tuple(_holes(collected, options)),
        formula="loss of symmetry = Spearman of s(a, b) - Spearman of s(b, a), both with the raters' scores",
        origin=Origin(data="data set"),
    )


def _columns(rows: pl.DataFrame, options: TableOptions) -> tuple[Column, ...]:
    differ = rows.filter(pl.col("similarity") != pl.col("score_similarity"))
    scored_with = (Column(key="score_similarity", header="scored with"),) if differ.height else ()
    return (
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        *varying(rows, (Column(key="group", header="group"),)),
        Column(key="shown_data_set", header="data set"),
        Column(key="similarity", header="similarity"),
        *scored_with,
        Column(key="forward", header="Spearman s(a, b)", kind="score", ranked=True),
        Column(key="swapped", header="Spearman s(b, a)", kind="score"),
        Column(key="loss", header="loss of symmetry", kind="points"),
        Column(key="loss_low", upper="loss_high", header="95 % interval", kind="points_interval"),
        Column(key="loss_adjusted_p", header=f"p ({correction_header(options)})", kind="p", decimals=3),
        Column(key="untrained", header="untrained", kind="score", origin=_BEFORE),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, options: TableOptions) -> Iterator[str]:
    data, scale = (", ".join(rows[name].unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scale}. Correlations are times 100, averaged over seeds."
    yield (
        "A pair's first text takes the query's part in s(a, b) and the document's in s(b, a): a symmetric similarity "
        "gives the same for both."
    )
    yield (
        "Loss of symmetry: s(a, b)'s correlation minus s(b, a)'s, in points (times 100), with the interval and p of "
        f"the two-way model of seeds and pairs on each pair's share of the difference; {correction_name(options)} over "
        "the table. No p: the two orders are the same, and there is nothing to test."
    )
    yield from no_paired_test(options, "the two-way model of seeds and pairs")
    yield "Untrained: the checkpoint before training, s(a, b) under the row's score similarity."
    if rows["num_seeds"].max() == 1:
        yield "One seed: nothing here says how far another seed would move a number."


def _parts(collected: Collected) -> Iterator[str]:
    return parts_note(e for e in collected.record.evaluations if e.main_measure == SPEARMAN)


def _holes(collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected_sts, options.where)
    yield from missing_lines(collected, chosen, ("trial", "sts"))
