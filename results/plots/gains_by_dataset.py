"""Plot `gains_by_dataset`: the gain of every similarity on each data set, a strip for each data set."""

from typing import Any

import polars as pl
from matplotlib.figure import Figure

from results.plots.external import external_gains, external_rows, is_external, of_models, with_sources
from results.plots.gains import BETWEEN, gain_label, gain_mark, over_baseline
from results.plots.plot import Plot, PlotSource, holes_of
from results.plots.style import (
    COLUMN,
    GREY,
    in_catalogue_order,
    legend,
    new_figure,
    shortened,
    similarity_handles,
    styled,
    titled,
)


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """A strip for each data set, under the groups in which it counts; marks as in `gains`.

    `rows` are of one model and init regime: `group` is the data set, `groups` where it counts, otherwise as in `gains`.
    """
    ours = rows.filter(~external_rows(rows))
    strips = ours.select("groups", "group").unique(maintain_order=True).sort("groups", maintain_order=True)
    names = strips["group"].to_list()
    similarities = in_catalogue_order(rows["similarity"])
    figure = new_figure(width=COLUMN, height=1.0 + len(names) * (0.14 + 0.11 * len(similarities)))
    axes = figure.add_subplot()
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    for place in range(0, len(names), 2):
        axes.axhspan(place - 0.5, place + 0.5, color=GREY, alpha=0.08, linewidth=0)
    for row in rows.iter_rows(named=True):
        offset = (similarities.index(row["similarity"]) - (len(similarities) - 1) / 2) * BETWEEN
        y = names.index(row["group"]) + offset
        gain_mark(axes, row, y)
        if is_external(row):
            beside = (100 * row["gain"], y)
            near: dict[str, Any] = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 6, "color": GREY}
            axes.annotate(row["source"], beside, **near)
    labels = [f"{shortened(name)}\n({shortened(groups)})" for groups, name in strips.rows()]
    axes.set(xlabel=with_sources(gain_label(rows), rows), yticks=range(len(names)), yticklabels=labels)
    titled(figure, title)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    legend(figure, similarity_handles(similarities, curves=False))
    return figure


def _rows(source: PlotSource) -> pl.DataFrame:
    ours = over_baseline(source, "gains_by_dataset")
    found = of_models(external_gains(source, "gains_by_dataset", ours), ours)
    return pl.concat([ours, found])


PLOT = Plot(
    name="gains_by_dataset",
    title="Gains by data set",
    reading=(
        "Points against the baseline on each data set, with the groups in which it counts; intervals, hollow marks "
        "and pale ones as for groups."
    ),
    rows=_rows,
    by=("model", "init_regime", "scale"),
    draw=draw,
    holes=holes_of("gains_by_dataset"),
)
