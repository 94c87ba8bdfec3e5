"""Plot `cohen_d`: how much longer relevant documents are, against the gain, a mark for each data set."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from results.magnitude import AGAINST
from results.plots.gains import gain_label, over_baseline
from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of
from results.plots.style import (
    COLUMN,
    GREY,
    PAGE,
    Look,
    in_catalogue_order,
    legend,
    mark,
    new_figure,
    numbered_look,
    panels,
    shortened,
    styled,
    titled,
)
from results.statistics.effect_sizes import D_UNIT
from results.tables.parts import model_name

_MOST_NAMED = 12  # data sets of a panel: the names of more would cover each other
_MODEL = ["task", "training_data", "family", "layers", "init_regime", "scale"]


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """A panel for each similarity, a mark for each data set in the look of the groups in which it counts.

    `rows` are of one model and init regime: `similarity`, `data_set`, `groups`, `cohen_d`, `gain` (0 to 1), `baseline`.
    """
    similarities = in_catalogue_order(rows["similarity"])
    groups = rows["groups"].unique(maintain_order=True).to_list()
    across = min(len(similarities), 2)
    height = 0.7 + 2.4 * -(-len(similarities) // across)
    figure = new_figure(width=PAGE if across == 2 else COLUMN, height=height)
    titled(figure, title)
    shared = {"sharex": True, "sharey": True}
    for axes, similarity in zip(panels(figure, len(similarities), columns=2, **shared), similarities, strict=True):
        _panel(axes, rows.filter(similarity=similarity), groups)
        axes.set_title(similarity, loc="left")
        axes.set(xlabel=f"Cohen's d, {D_UNIT}", ylabel=gain_label(rows))
        axes.label_outer()
    legend(figure, [_handle(name, numbered_look(place)) for place, name in enumerate(groups)])
    return figure


def _handle(label: str, look: Look) -> Line2D:
    return Line2D([], [], linestyle="none", marker=look.marker, color=look.colour, label=shortened(label))


def _panel(axes: Axes, rows: pl.DataFrame, groups: list[str]) -> None:
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for row in rows.iter_rows(named=True):
        place = (row["cohen_d"], 100 * row["gain"])
        mark(axes, *place, numbered_look(groups.index(row["groups"])))
        if rows.height <= _MOST_NAMED:
            near: dict[str, Any] = {"xytext": (4, 3), "textcoords": "offset points", "fontsize": 6, "color": GREY}
            axes.annotate(shortened(row["data_set"], 20), place, **near)


def _rows(source: PlotSource) -> pl.DataFrame:
    distances = source.table("cohen_d").rows.with_columns(model_name())
    of_kind = distances.filter((pl.col("kind") == "train") & (pl.col("irrelevant") == AGAINST)).drop_nulls("cohen_d")
    split = pl.format("{} ({})", "data_set", "split")
    has_splits = pl.col("split").n_unique().over("data_set") > 1
    named = of_kind.with_columns(group=pl.when(has_splits).then(split).otherwise("data_set"))
    gains = over_baseline(source, "gains_by_dataset")
    if source.options.pool:
        raise NothingToDrawError(
            "a gain is a mean over training data sets (--pool), Cohen's d is of the checkpoints of one: choose one "
            "(--where training_data=NAME)"
        )
    key = [*_MODEL, "similarity", "group"]
    points = named.join(
        gains.select(*key, "groups", "gain", "baseline"), on=key, nulls_equal=True, maintain_order="left"
    )
    if points.is_empty():
        raise NothingToDrawError("no data set has both Cohen's d of its documents and a gain")
    return points


PLOT = Plot(
    name="cohen_d",
    title="Document norms and gains",
    reading=(
        "Right of 0 relevant documents are longer than unjudged ones, above 0 the similarity gains over the baseline. "
        "Groups lie apart in both, which alone makes a correlation over all: read it within groups."
    ),
    rows=_rows,
    by=("model", "init_regime", "scale"),
    draw=draw,
    holes=holes_of("cohen_d", "gains_by_dataset"),
)
