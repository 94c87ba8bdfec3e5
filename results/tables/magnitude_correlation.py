"""Table `magnitude_correlation`: whether a similarity gains where relevant documents are longer."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.magnitude import AGAINST, cohen_ds
from results.magnitude_correlation import SIMILARITY, magnitude_correlations
from results.selection import select_trials
from results.statistics.correlation import OUTLIER_RULE
from results.tables.cohen_d import found_statistics, norm_holes
from results.tables.parts import (
    correction_name,
    correlation_columns,
    missing_lines,
    model_name,
    no_paired_test,
    parts_note,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN


def build(collected: Collected, options: TableOptions) -> Table:
    """The correlations. Raises what `results.magnitude_correlation.magnitude_correlations` raises."""
    statistics = found_statistics(collected)
    found = magnitude_correlations(
        statistics,
        collected.data_set_scores,
        collected.expected,
        baseline=options.baseline,
        where=options.where,
        correction=options.correction,
    )
    rows = found.with_columns(model_name())
    return Table(
        name="magnitude_correlation",
        title="Cohen's d of document norms against the gain, over data sets",
        columns=_columns(rows, options),
        rows=rows,
        notes=(*_notes(rows, collected, options), *warning_notes(collected)),
        block=("task", "training_data", "scale", "model", "init_regime", "measure", "scope"),
        holes=tuple(_holes(statistics, collected, options)),
        formula="Pearson or Spearman over data sets of (Cohen's d, gain)",
        origin=Origin(trials=("trial_ids", "baseline_trial_ids"), data="listed"),
    )


def _columns(rows: pl.DataFrame, options: TableOptions) -> tuple[Column, ...]:
    of = tuple(Column(key=key, header=key.replace("_", " ")) for key in ("task", "training_data", "scale"))
    return (
        *varying(rows, of),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        *varying(rows, (Column(key="measure", header="measure"),)),
        Column(key="scope", header="data sets"),
        Column(key="outliers", header="outliers"),
        Column(key="coefficient", header="coefficient"),
        Column(key="n", header="n", kind="count"),
        Column(key="value", header="value", kind="plain"),
        *correlation_columns(options),
    )


def _notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    similarity, baseline = (rows[name][0] if rows.height else "" for name in ("similarity", "baseline"))
    yield (
        f"A point is a data set: Cohen's d of relevant against {AGAINST} documents under {similarity or SIMILARITY}, "
        f"and the gain (score of {similarity or SIMILARITY} - score of {baseline or 'the baseline'}), seeds averaged. "
        "Another similarity: --where similarity=NAME."
    )
    data, scales = (", ".join(rows[name].drop_nulls().unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scales}."
    yield (
        "Within groups: Pearson of what is left after each group's mean is taken off both; Spearman of ranks within "
        "the group. What lies between groups can make a correlation over all by itself. A data set in two groups "
        "counts in the first."
    )
    yield f"Outliers are left out by {OUTLIER_RULE}."
    yield (
        "Interval: BCa, 2,000 draws. p: permutations within groups, two-sided, for both scopes. "
        f"{correction_name(options)} over all p of the table. Leave one out: the smallest and the largest value with "
        "one data set less."
    )
    yield from no_paired_test(options, "permutations of data sets")
    yield from parts_note(e for e in collected.record.evaluations if e.main_measure != SPEARMAN and e.groups)
    for reason in rows["reason"].drop_nulls().unique(maintain_order=True):
        yield f"Dash: {reason}."


def _holes(statistics: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    where = {**options.where}
    sides = (where.pop("similarity", SIMILARITY), options.baseline)
    chosen = select_trials(collected.expected, where).filter(pl.col("similarity").is_in(sides))
    yield from missing_lines(collected, chosen, ("trial", "evaluation"))
    is_point = (pl.col("kind") == "train") & (pl.col("similarity") == sides[0]) & (pl.col("irrelevant") == AGAINST)
    norms = cohen_ds(statistics, collected.expected, where=where).filter(is_point)
    yield from dict.fromkeys(norm_holes(norms.with_columns(model_name(), label="similarity"), collected))
