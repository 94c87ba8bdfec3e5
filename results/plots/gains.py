"""Plot `gains`: the gain of every similarity on a group with its interval, a line for each model and init regime."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from results.plots.external import external_gains, is_external, with_sources
from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of, line_name
from results.plots.style import (
    COLUMN,
    GREY,
    PALE,
    in_catalogue_order,
    legend,
    look_of,
    mark,
    new_figure,
    shortened,
    similarity_handles,
    styled,
    titled,
)

BETWEEN = 0.15  # of a line's height: marks of one line stand below each other, so that intervals can be told apart


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """Gains in points: a line for each model, regime and scale, a mark and an interval for each similarity.

    `rows` are of one group: `model`, `init_regime`, `scale`, `similarity`, `gain`, `gain_low`, `gain_high` (0 to 1),
    `num_seeds`, `baseline`. A hollow mark is of one seed, a pale one an external number of the source that its line
    names.
    """
    several_scales = rows["scale"].drop_nulls().n_unique() > 1
    named = [(_line(row, several_scales), row) for row in rows.iter_rows(named=True)]
    lines = list(dict.fromkeys(name for name, _ in named))
    similarities = in_catalogue_order(rows["similarity"])
    figure = new_figure(width=COLUMN, height=1.0 + len(lines) * (0.2 + 0.11 * len(similarities)))
    axes = figure.add_subplot()
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    for name, row in named:
        offset = (similarities.index(row["similarity"]) - (len(similarities) - 1) / 2) * BETWEEN
        gain_mark(axes, row, lines.index(name) + offset)
    axes.set(
        xlabel=with_sources(gain_label(rows), rows),
        yticks=range(len(lines)),
        yticklabels=[shortened(line) for line in lines],
    )
    titled(figure, title)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    for line in range(1, len(lines)):
        axes.axhline(line - 0.5, color=GREY, linewidth=0.3)
    legend(figure, similarity_handles(similarities, curves=False))
    return figure


def _line(row: dict[str, Any], several_scales: bool) -> str:
    if is_external(row):
        return " ".join(filter(None, (row["model"], row["init_regime"], row["source"])))
    return line_name(row, with_scale=several_scales)


def gain_label(rows: pl.DataFrame) -> str:
    """What the axis of gains says; of scores on pools that they are such."""
    pools = ", on pools" if "tier" in rows.columns and "pool" in rows["tier"] else ""
    return f"gain over {rows['baseline'][0]} in points{pools}"


def gain_mark(axes: Axes, row: dict[str, Any], y: float) -> None:
    """A gain with its interval at a height."""
    look = look_of(str(row["similarity"]))
    if row["gain_low"] is not None and row["gain_high"] is not None:
        ends = [100 * float(row["gain_low"]), 100 * float(row["gain_high"])]
        axes.plot(ends, [y, y], color=look.colour, linewidth=1.0, marker="|", markersize=3.5)
    alpha = PALE if is_external(row) else 1.0
    mark(axes, 100 * float(row["gain"]), y, look, filled=row["num_seeds"] != 1, alpha=alpha)


def _rows(source: PlotSource) -> pl.DataFrame:
    ours = over_baseline(source, "gains")
    return pl.concat([ours, external_gains(source, "gains", ours)]).sort("row")


def over_baseline(source: PlotSource, table: str) -> pl.DataFrame:
    """Gains of a table's trained rows but the baseline's own, which is 0: the line that the others stand at.

    `row` is the place in the table.

    Raises:
        NothingToDrawError: there is no such table, or nothing beside the baseline has a gain.
    """
    baseline = source.options.baseline
    is_other = (pl.col("kind") == "train") & (pl.col("similarity") != baseline) & pl.col("gain").is_not_null()
    rows = source.table(table).rows.with_row_index("row").filter(is_other)
    if rows.is_empty():
        raise NothingToDrawError(f"no trial has a gain over {baseline} yet")
    return rows.with_columns(baseline=pl.lit(baseline))


PLOT = Plot(
    name="gains",
    title="Gains",
    reading=(
        "Points of the group's mean score against the baseline, which stands at 0, with 95 % intervals for these data "
        "sets. A hollow mark is of one seed: its interval says nothing of another seed. A pale mark is an external "
        "number, against the baseline of its own source."
    ),
    rows=_rows,
    by=("group",),
    draw=draw,
    holes=holes_of("gains"),
)
