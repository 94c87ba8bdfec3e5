"""Tables `significance` and `significance_by_dataset`: every gain, and what tells it from chance."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.compared import Compared
from results.estimates import FIXED_SEEDS, with_marks
from results.scores import by_data_set
from results.selection import select_result, select_trials
from results.significance import Methods, significance
from results.tables.gain_parts import (
    BOTH,
    CELL_BLOCK,
    INTERVAL,
    cell_columns,
    check_baseline,
    compared_cells,
    one_seed_note,
    reason_notes,
    target_note,
    trained_note,
    trial_holes,
)
from results.tables.parts import correction_name, fairness_lines, model_name, parts_note, warning_notes
from results.tables.table import Column, Table, TableOptions

_PAIRED = {
    "t": "paired t-test (over several data sets the sum of their variances)",
    "permutation": "sign-flip permutation test",
    "wilcoxon": "Wilcoxon's signed rank test (Pratt), on single data sets",
}


def build(collected: Collected, options: TableOptions) -> Table:
    """The comparisons on groups.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    cells = compared_cells(collected, collected.expected, options)
    return _table("significance", "Gains against {}: what tells them from chance", cells, collected, options)


def build_by_data_set(collected: Collected, options: TableOptions) -> Table:
    """The comparisons on data sets. Raises as `build` does."""
    cells = compared_cells(collected, by_data_set(collected.expected), options)
    title = "Gains against {} by data set: what tells them from chance"
    return _table("significance_by_dataset", title, cells, collected, options)


def _table(name: str, title: str, cells: list[Compared], collected: Collected, options: TableOptions) -> Table:
    check_baseline(cells, options)
    tests = Methods(correction=options.correction, paired_test=options.paired_test)
    found = significance(cells, options.baseline, tests).with_columns(kind=pl.lit("train"))
    rows = with_marks(select_result(found, options.where).drop("kind")).with_columns(model_name())
    by_data_set_ = name == "significance_by_dataset"
    return Table(
        name=name,
        title=title.format(options.baseline),
        columns=_columns(rows, by_data_set_),
        rows=rows,
        notes=(
            *_notes(rows, cells, collected, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=CELL_BLOCK,
        holes=trial_holes(collected, options),
        formula="gain = score - baseline's score; d_z = mean of paired differences / their standard deviation",
        origin=BOTH,
    )


def _columns(rows: pl.DataFrame, by_data_set_: bool) -> tuple[Column, ...]:
    new = (
        Column(key="new_gain_low", upper="new_gain_high", header="new data sets", kind="points_interval", detail=True),
        Column(key="adjusted_new_p", header="its adj. p", kind="p", decimals=3, detail=True, reason="new_gain_reason"),
    )
    return (
        *cell_columns(rows, "data set" if by_data_set_ else "group"),
        Column(key="similarity", header="similarity"),
        Column(key="gain", header="gain", kind="points", marks="mark"),
        Column(key="mark", header="sig."),
        Column(key="gain_low", upper="gain_high", header=INTERVAL, kind="points_interval"),
        Column(key="gain_p", header="p", kind="p", decimals=3, detail=True),
        Column(key="adjusted_p", header="adj. p", kind="p", decimals=3, reason="gain_reason"),
        Column(
            key="bootstrap_low",
            upper="bootstrap_high",
            header="bootstrap",
            kind="points_interval",
            reason="gain_reason",
        ),
        *(() if by_data_set_ else new),
        Column(key="adjusted_fixed_p", header="adj. p, seeds fixed", kind="p", decimals=3, reason="fixed_reason"),
        Column(key="d_z", header="d_z", kind="plain"),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, cells: list[Compared], collected: Collected, options: TableOptions) -> Iterator[str]:
    yield from trained_note(rows)
    yield target_note()
    num_tests = rows["gain_p"].drop_nulls().len()
    yield (
        f"p and mark: of the two-way model. Adj.: {correction_name(options)} over the {num_tests} comparisons of "
        "this table. The three columns of p are one question each (these data sets, new ones, these seeds) and a "
        "family each: cite the one whose question was asked beforehand. Stars as in the table of gains."
    )
    yield "Bootstrap: seeds and queries drawn anew 1,000 times, a check; of few seeds it sees too small a spread."
    yield (
        f"Seeds fixed: {_PAIRED[options.paired_test]} of the queries' differences, averaged over seeds. It speaks of "
        f"{FIXED_SEEDS}, these very checkpoints."
    )
    yield (
        "d_z: paired effect size, the mean difference in standard deviations of the differences between data sets, or "
        "between the queries of a single one."
    )
    yield from parts_note(collected.record.evaluations)
    yield from reason_notes(rows.filter(pl.col("gain_low").is_null()), "gain_reason", "interval or gain", _PLACE)
    yield from reason_notes(rows, "fixed_reason", "p with seeds fixed", _PLACE)
    yield from one_seed_note(rows["num_seeds"])


_PLACE = ["model", "init_regime", "group", "similarity"]
