"""Table `ranks`: similarities ranked over the data sets of a group, and how many data sets each really won."""

from collections.abc import Iterator, Mapping

import polars as pl

from results.cell_ranks import cell_ranks
from results.collect import Collected
from results.selection import select_result, select_trials
from results.statistics.estimate import LEVEL
from results.statistics.ranks import PostHoc
from results.tables.gain_parts import (
    CELL_BLOCK,
    cell_columns,
    compared_cells,
    listed,
    one_seed_note,
    reason_notes,
    trained_note,
    trial_holes,
)
from results.tables.parts import correction_name, fairness_lines, model_name, no_paired_test, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions


def build(collected: Collected, options: TableOptions) -> Table:
    """The ranks of groups with two data sets or more.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    cells = compared_cells(collected, collected.expected, options)
    found = cell_ranks(cells, options.baseline, post_hoc=options.post_hoc, correction=options.correction)
    shown = (
        select_result(found.with_columns(kind=pl.lit("train")), options.where).drop("kind") if found.height else found
    )
    rows = shown.with_columns(model_name())
    return Table(
        name="ranks",
        title="Similarities ranked over data sets",
        columns=_columns(rows, options),
        rows=rows,
        notes=(
            *_notes(rows, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=CELL_BLOCK,
        holes=trial_holes(collected, options),
        formula="mean rank = mean over data sets of the similarity's rank (1 is best, ties share)",
        origin=Origin(trials=("compared_trial_ids",)),
    )


def _columns(rows: pl.DataFrame, options: TableOptions) -> tuple[Column, ...]:
    return (
        *cell_columns(rows),
        Column(key="similarity", header="similarity"),
        Column(key="mean_rank", header="mean rank", kind="plain"),
        Column(key="num_best", header="best on", kind="count"),
        Column(key="num_won", header="really won", kind="count"),
        Column(key="num_data_sets", header="of", kind="count"),
        Column(key="friedman", header="Friedman", kind="plain", detail=True),
        Column(key="adjusted_p", header="Friedman adj. p", kind="p", decimals=3),
        *(
            (Column(key="critical_difference", header="crit. diff.", kind="plain"),)
            if options.post_hoc == "nemenyi"
            else ()
        ),
        Column(key="baseline_p", header=f"p to {options.baseline}", kind="p", decimals=3),
        Column(key="first_p", header="p to the first", kind="p", decimals=3),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, options: TableOptions) -> Iterator[str]:
    yield from trained_note(rows)
    if rows.is_empty():
        yield "No group has two data sets and two similarities to compare: there is nothing to rank over."
        return
    yield "Mean rank: over the group's data sets, 1 is best, equal scores share ranks; seeds and queries averaged."
    yield (
        "Best on: data sets where it scores best. Really won: it can also be told from the second there, p of the lead "
        f"adjusted ({correction_name(options)}) over all data sets of all rows."
    )
    yield (
        f"Friedman's test speaks of new data sets; its p is adjusted ({correction_name(options)}) over the "
        f"models, init regimes and groups. {_PAIRS[options.post_hoc]}"
    )
    not_told = rows.filter(pl.col("adjusted_p") > 1 - LEVEL).select(pl.concat_str(_PLACE, separator="/"))
    if places := not_told.to_series().unique(maintain_order=True).to_list():
        yield (
            f"Friedman's test finds no difference in {listed(places)}: p of pairs, which are tests after it, say "
            "nothing there."
        )
    yield from no_paired_test(options, "Friedman's test and pairs after it, and of the two-way model's leads")
    yield from reason_notes(rows, "reason", "test", _PLACE)
    yield from one_seed_note(rows["num_seeds"])


_PLACE = ["model", "init_regime", "group"]
_PAIRS: Mapping[PostHoc, str] = {
    "nemenyi": "After it all pairs by Nemenyi's test, which is over the pairs of one group: mean ranks further "
    "apart than the critical difference can be told.",
    "holm": "After it all pairs, Holm's step-down over the pairs of all groups of the table.",
}
