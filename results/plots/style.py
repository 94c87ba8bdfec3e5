"""How every plot looks: sizes and letters for print, and a colour, a marker and a dash for each similarity.

Colours are those of Okabe and Ito, which people who are colour-blind can tell apart; markers and line styles tell them
apart once more, and on a grey printer. Figures are drawn at the size at which they are printed: `COLUMN` is a column of
a two-column paper, `PAGE` its whole width, both in inches, so that a letter of 7.5 points is one on paper.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from search_spaces.catalogue.similarities import SIMILARITIES

COLUMN, PAGE = 3.35, 6.9
OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2", "#F0E442")
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
GREY = "#666666"
_DRAWING = threading.RLock()
_MAX_POINTS = 400  # of a curve: more are not seen, and make files of megabytes
_STYLE: Mapping[str, Any] = {
    "svg.hashsalt": "densesweep",  # else ids in the file are drawn at random
    "svg.fonttype": "none",  # a third of the time and size of drawn letters
    "pdf.fonttype": 42,  # TrueType: what publishers take, and text that can be searched
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8.0,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "lines.markersize": 4.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "text.parse_math": False,  # names are names, whatever dollar signs stand in them
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a similarity is drawn, in every plot."""

    colour: str
    marker: str
    dashes: Any


def look_of(similarity: str) -> Look:
    """The look of a similarity: by its place in the catalogue."""
    return numbered_look(list(SIMILARITIES).index(similarity))


def numbered_look(place: int) -> Look:
    """The look of the thing at a place: what is no similarity has looks too."""
    return Look(
        colour=OKABE_ITO[place % len(OKABE_ITO)],
        marker=MARKERS[place % len(MARKERS)],
        dashes=DASHES[place % len(DASHES)],
    )


@contextmanager
def styled() -> Iterator[None]:
    """The settings of matplotlib are the process's: one thread at a time draws."""
    with _DRAWING, mpl.rc_context(dict(_STYLE)):
        yield


def new_figure(*, width: float, height: float) -> Figure:
    """A figure of its own: without pyplot, which keeps figures in a state that all threads share. Inches."""
    return Figure(figsize=(width, height), layout="constrained")


def titled(figure: Figure, title: str) -> None:
    """A title over the whole figure, cut where it is wider."""
    room = int(figure.get_figwidth() * 72 / 4.6)  # letters of 8 points are about 4.6 wide
    figure.suptitle(shortened(title, room), x=0.01, ha="left", fontsize=8)


def shortened(name: str, most: int = 24) -> str:
    """A name that leaves room for what is drawn: of a long one the beginning and the end, which tell most apart."""
    head = most * 2 // 3
    return name if len(name) <= most else f"{name[:head]}…{name[-(most - head - 1) :]}"


def panels(figure: Figure, num: int, *, columns: int, **shared: Any) -> Sequence[Axes]:
    """`num` axes in rows of at most `columns`; places left over stay empty."""
    columns = min(num, columns)
    grid = figure.subplots(-(-num // columns), columns, squeeze=False, **shared)
    for spare in grid.flat[num:]:
        spare.set_visible(False)
    return list(grid.flat[:num])


def in_catalogue_order(similarities: Iterable[str]) -> list[str]:
    """The similarities among the given names, as the catalogue lists them."""
    shown = set(similarities)
    return [name for name in SIMILARITIES if name in shown]


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """A legend below the panels, where it hides nothing, in as many rows as the width asks for."""
    per_row = max(1, int(figure.get_figwidth() / 0.8))
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=min(per_row, len(handles)))


def similarity_handles(similarities: Iterable[str], *, curves: bool) -> list[Line2D]:
    """An entry for each similarity, as curves or as marks."""
    return [_handle(name, look_of(name), curves) for name in in_catalogue_order(similarities)]


def _handle(label: str, look: Look, curves: bool) -> Line2D:
    style: dict[str, Any] = {"linestyle": look.dashes} if curves else {"linestyle": "none", "marker": look.marker}
    return Line2D([], [], color=look.colour, label=label, **style)


PALE = 0.4  # how much of its colour a mark has that is no number of ours


def mark(axes: Axes, x: float, y: float, look: Look, *, filled: bool = True, alpha: float = 1.0) -> None:
    """One mark; hollow where it is to be read with more care, PALE where others made its number."""
    face = look.colour if filled else "white"
    axes.plot(
        x,
        y,
        linestyle="none",
        marker=look.marker,
        color=look.colour,
        markerfacecolor=face,
        markeredgewidth=1.1,
        alpha=alpha,
    )


def thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Every so many rows of a long curve, its last one included."""
    every = max(1, -(-curve.height // _MAX_POINTS))
    return curve.filter((pl.int_range(pl.len()) % every == 0) | (pl.col("step") == pl.col("step").max()))
