"""Plot `norms`: mean norms of relevant and irrelevant documents under every similarity, a strip for each data set."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from results.plots.gains import BETWEEN
from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of
from results.plots.style import (
    COLUMN,
    GREY,
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
from results.tables.parts import model_name


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """A filled mark at the relevant documents' mean norm, a hollow one at that of irrelevant ones, joined by a line.

    `rows` are of one model, init regime and training data set, and of table `cohen_d`: `data_set`, `similarity`,
    `irrelevant` (which documents those are), `relevant_norm`, `irrelevant_norm`.
    """
    strips = rows.select("data_set", "irrelevant").unique(maintain_order=True).rows()
    similarities = in_catalogue_order(rows["similarity"])
    figure = new_figure(width=COLUMN, height=1.0 + len(strips) * (0.14 + 0.11 * len(similarities)))
    axes = figure.add_subplot()
    for place in range(0, len(strips), 2):
        axes.axhspan(place - 0.5, place + 0.5, color=GREY, alpha=0.08, linewidth=0)
    for row in rows.iter_rows(named=True):
        offset = (similarities.index(row["similarity"]) - (len(similarities) - 1) / 2) * BETWEEN
        y = strips.index((row["data_set"], row["irrelevant"])) + offset
        look = look_of(row["similarity"])
        axes.plot([row["irrelevant_norm"], row["relevant_norm"]], [y, y], color=look.colour, linewidth=1.0)
        mark(axes, row["irrelevant_norm"], y, look, filled=False)
        mark(axes, row["relevant_norm"], y, look)
    labels = [f"{shortened(data_set)}\n(irrelevant: {kind})" for data_set, kind in strips]
    axes.set(xlabel="mean norm of documents", yticks=range(len(strips)), yticklabels=labels)
    titled(figure, title)
    axes.set_ylim(len(strips) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    sides = [_side("relevant", GREY), _side("irrelevant", "white")]
    legend(figure, [*similarity_handles(similarities, curves=False), *sides])
    return figure


def _side(label: str, face: str) -> Line2D:
    return Line2D([], [], linestyle="none", marker="o", color=GREY, markerfacecolor=face, label=label)


def _rows(source: PlotSource) -> pl.DataFrame:
    rows = source.table("cohen_d").rows.with_columns(model_name())
    known = rows.filter(pl.col("kind") == "train").drop_nulls(["relevant_norm", "irrelevant_norm"])
    if known.is_empty():
        raise NothingToDrawError("no trained checkpoint has norms of relevant and of irrelevant documents")
    return known


PLOT = Plot(
    name="norms",
    title="Norms of documents",
    reading=(
        "Where the filled mark stands to the right of the hollow one, relevant documents are longer, which a "
        "similarity that keeps document norms can use."
    ),
    rows=_rows,
    by=("model", "init_regime", "training_data", "scale"),
    draw=draw,
    holes=holes_of("cohen_d"),
)
