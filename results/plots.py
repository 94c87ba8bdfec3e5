"""Plots of rows: loss curves of trials, one training in its parts, headline gains. The only module with matplotlib.

Functions from frames to figures, and `svg` from a figure to bytes: the same rows give the same bytes. Colours are those
of Okabe and Ito, which people who are colour-blind can tell apart; markers and line styles tell them apart once more.
"""

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from search_spaces.catalogue.similarities import SIMILARITIES

_OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442")
_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
_DRAWING = threading.Lock()
_MAX_POINTS = 400  # of a curve: more are not seen, and make files of megabytes
_STYLE: Mapping[str, Any] = {
    "svg.hashsalt": "densesweep",  # else ids in the file are drawn at random
    "svg.fonttype": "none",  # a third of the time and size of drawn letters
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
_PANELS = (
    ("loss", ("loss",)),
    ("mean norm of embeddings", ("query_norm_mean", "document_norm_mean")),
    ("validation score", ("validation_score",)),
)


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a similarity is drawn, in every plot."""

    colour: str
    marker: str
    dashes: Any


def look_of(similarity: str) -> Look:
    """The look of a similarity: by its place in the catalogue."""
    place = list(SIMILARITIES).index(similarity)
    return Look(
        colour=_OKABE_ITO[place % len(_OKABE_ITO)],
        marker=_MARKERS[place % len(_MARKERS)],
        dashes=_DASHES[place % len(_DASHES)],
    )


@contextmanager
def _styled() -> Iterator[None]:
    """The settings of matplotlib are the process's: one thread at a time draws."""
    with _DRAWING, mpl.rc_context(dict(_STYLE)):
        yield


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file, without date: the same bytes for the same figure."""
    buffer = io.BytesIO()
    with _styled():
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


@_styled()
def loss_curves(history: pl.DataFrame, title: str) -> Figure:
    """The loss of each trial by its steps, in the colour of its similarity.

    `history` has `trial_id`, `similarity`, `step` and `loss`; steps of a trial are in order.
    """
    figure, (axes,) = _figure(width=6.4, height=4.0)
    axes.set(title=title, xlabel="optimiser step", ylabel="loss")
    for (_, similarity), curve in history.group_by(["trial_id", "similarity"], maintain_order=True):
        look, points = look_of(str(similarity)), _thinned(curve)
        axes.plot(points["step"], points["loss"], color=look.colour, linestyle=look.dashes, linewidth=1.1)
    shown = history["similarity"].unique().to_list()
    _legend(axes, [name for name in SIMILARITIES if name in shown], curves=True)
    return figure


@_styled()
def training_curves(history: pl.DataFrame, title: str) -> Figure:
    """One training: loss, norms and validation, as far as it has them; `history` has columns of the schema HISTORY."""
    panels = [(name, [c for c in columns if history[c].drop_nulls().len()]) for name, columns in _PANELS]
    panels = [(name, columns) for name, columns in panels if columns]
    figure, each = _figure(width=3.2 * len(panels), height=2.6, num=len(panels))
    figure.suptitle(title, fontsize=10)
    points = _thinned(history)
    for axes, (name, columns) in zip(each, panels, strict=True):
        axes.set(title=name, xlabel="optimiser step")
        source = history if name == "validation score" else points
        for index, column in enumerate(columns):
            curve = source.select("step", column).drop_nulls()
            label = column.partition("_")[0] if len(columns) > 1 else None
            colour, dashes = _OKABE_ITO[6 - 2 * index], _DASHES[index]  # blue, then vermilion
            axes.plot(curve["step"], curve[column], color=colour, linestyle=dashes, linewidth=1.2, label=label)
        if len(columns) > 1:
            axes.legend(frameon=False)
    return figure


@_styled()
def gain_dots(rows: pl.DataFrame, title: str) -> Figure:
    """Gains in points of one group: a line for each model, regime and scale, a mark for each similarity.

    `rows` are trained rows of table `gains` with a gain: `model`, `init_regime`, `scale`, `similarity`, `gain`.
    """
    several_scales = rows["scale"].n_unique() > 1
    marks = [
        (row["similarity"], 100 * row["gain"], _line_name(row, several_scales)) for row in rows.iter_rows(named=True)
    ]
    lines = list(dict.fromkeys(line for _, _, line in marks))
    figure, (axes,) = _figure(width=6.4, height=1.4 + 0.3 * len(lines))
    axes.axvline(0.0, color="#666666", linewidth=0.8)
    for name, gain, line in marks:
        look = look_of(name)
        axes.plot(gain, lines.index(line), linestyle="none", marker=look.marker, markersize=5.5, color=look.colour)
    axes.set(title=title, xlabel="gain in points", yticks=range(len(lines)), yticklabels=lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    shown = set(rows["similarity"])
    _legend(axes, [name for name in SIMILARITIES if name in shown], curves=False)
    return figure


def _line_name(row: Mapping[str, Any], with_scale: bool) -> str:
    return f"{row['model']} {row['init_regime']}" + (f" {row['scale']}" if with_scale else "")


def _figure(*, width: float, height: float, num: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """A figure of its own: without pyplot, which keeps figures in a state that all threads share."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, num, index + 1) for index in range(num)]


def _legend(axes: Axes, similarities: Sequence[str], *, curves: bool) -> None:
    axes.legend(handles=list(_handles(similarities, curves)), frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _handles(similarities: Sequence[str], curves: bool) -> Iterator[Line2D]:
    for name in similarities:
        look = look_of(name)
        style: dict[str, Any] = {"linestyle": look.dashes} if curves else {"linestyle": "none", "marker": look.marker}
        yield Line2D([], [], color=look.colour, label=name, **style)


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Every so many rows of a long curve, its last one included."""
    every = max(1, -(-curve.height // _MAX_POINTS))
    return curve.filter((pl.int_range(pl.len()) % every == 0) | (pl.col("step") == pl.col("step").max()))
