"""The overview's Fisher check: the primary predictor's calls cell by cell, and how every predictor's calls came out."""

from collections.abc import Callable, Collection, Iterator, Mapping

import polars as pl

from results.collect import Collected
from results.overview_section import MOST_LINES, Section
from results.rendering.values import shown_text
from results.selection import NothingChosenError
from results.tables.built import build_one
from results.tables.fisher_check import FISHER
from results.tables.table import Column, Table, TableOptions

Build = Callable[[Collected, TableOptions], list[Section]]
_VERDICTS = ("hit", "miss", "undecided", "tie", "not run")


def check_sections(applicable: Collection[str]) -> Mapping[str, Build]:
    """The sections of the check, if it says something of a sweep."""
    return {"fisher_check": _check} if "fisher_check" in applicable else {}


def _check(collected: Collected, options: TableOptions) -> list[Section]:
    table = build_one("fisher_check", collected, options)
    primary = table.rows.filter("is_primary")
    rows = table.rows if primary.is_empty() else primary
    if rows.is_empty():
        raise NothingChosenError("no cell is trained in which a predictor could call a side")
    predictors = rows["predictor"].unique(maintain_order=True).to_list()
    first = FISHER if FISHER in predictors else predictors[0]
    return [_calls(table, rows.filter(pl.col("predictor") == first), first), _counts(table, rows, collected)]


def _calls(table: Table, rows: pl.DataFrame, predictor: str) -> Section:
    columns = tuple(_columns(rows))
    kept = rows.head(MOST_LINES)
    groups, measures = (rows[name].drop_nulls().unique(maintain_order=True) for name in ("shown_group", "measure"))
    of = f" on {groups[0].removesuffix(' *')}" if len(groups) == 1 else ""
    measure = measures[0] if len(measures) == 1 else "score"
    return Section(
        title=f"Fisher check: the side that {predictor} called before training, and who won{of}",
        headers=tuple(column.header for column in columns),
        names=tuple(at for at, column in enumerate(columns) if column.kind == "text"),
        lines=tuple(tuple(shown_text(column, row) or "–" for column in columns) for row in kept.iter_rows(named=True)),
        notes=(
            f"Predicted: {rows['statistic'][0]} of qnorm minus that of dnorm, an interval; undecided where it holds 0.",
            f"Observed: {measure} of qnorm minus that of dnorm in points, 95 % interval; tie where that holds 0.",
        ),
        table=table.name,
        left_away=rows.height - kept.height,
        holes=table.holes,
    )


def _columns(rows: pl.DataFrame) -> Iterator[Column]:
    for key, header in {"training_data": "trained on", "scale": "scale"}.items():
        if rows[key].n_unique() > 1:
            yield Column(key=key, header=header)
    yield Column(key="model", header="model")
    yield Column(key="regime", header="regime")
    if rows["shown_group"].n_unique() > 1:
        yield Column(key="shown_group", header="group")
    if rows["low"].drop_nulls().len():
        yield Column(key="low", upper="high", header="predicted", kind="interval")
    else:
        yield Column(key="difference_min", upper="difference_max", header="predicted", kind="range")
    yield Column(key="call", header="call")
    yield Column(key="gain", header="observed", kind="points")
    yield Column(key="gain_low", upper="gain_high", header="interval", kind="points_interval")
    yield Column(key="winner", header="winner")
    yield Column(key="verdict", header="verdict")


def _counts(table: Table, rows: pl.DataFrame, collected: Collected) -> Section:
    """A line for each predictor: how many of its calls came out how."""
    lines = []
    for (predictor,), cells in rows.group_by(["predictor"], maintain_order=True):
        verdicts = cells["verdict"]
        counts = [int((verdicts == verdict).sum()) for verdict in _VERDICTS]
        lines.append((str(predictor), *map(str, [*counts, verdicts.null_count(), cells.height])))
    record = collected.record
    groups = ", ".join(record.primary_groups)
    origin = "primary by default" if record.primary_by_default else "primary"
    return Section(
        title="How every predictor's calls came out" + (f" on {groups} ({origin})" if groups else ""),
        headers=("predictor", *_VERDICTS, "missing", "cells"),
        names=(0,),
        lines=tuple(lines),
        notes=("Undecided: no side is called; tie: neither side won; not run: the sweep does not train both sides.",),
        table=table.name,
    )
