"""Plots of probes: `spectra`, `kappa_sensitivity`, `kappa_convergence` and `fisher_densities`, a figure for each probe.

Blocks stand side by side; what is drawn of qnorm and dnorm is in the colours that they have everywhere.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator, StrMethodFormatter

from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of
from results.plots.style import (
    COLUMN,
    GREY,
    PAGE,
    Look,
    in_catalogue_order,
    legend,
    look_of,
    new_figure,
    numbered_look,
    panels,
    similarity_handles,
    styled,
    titled,
)
from results.probes import named_probes

_EMPIRICAL = "empirical_"
_BY = ("model", "init_regime", "training_data", "scale", "information")
_COLUMNS, _PANEL_HEIGHT = 3, 1.75  # of a page's width; inches
_DIFFERENCE = "qnorm-dnorm"
_LEAST_SHARE = 1e-6  # of a density, where the number of dimensions is not known
_THIN, _THICK = 0.7, 1.5  # lines of the smallest and the largest subspace


@styled()
def draw_spectra(rows: pl.DataFrame, title: str) -> Figure:
    """Eigenvalues of each block over the largest of them, falling, under both similarities; thin: smaller subspaces.

    `rows` are those of one probe with `block`, `similarity`, `statistic`, `rank`, `at` and `value`.
    """
    found = rows.filter(pl.col("statistic") == "eigenvalue")
    figure, places = _blocks(found, title)
    for block, axes in places:
        own = found.filter(pl.col("block") == block)
        for similarity, rank, curve in _curves(own):
            # A zero eigenvalue has no logarithm: the curve ends before it.
            points = curve.with_columns(value=pl.col("value") / pl.col("value").max()).filter(pl.col("value") > 0)
            axes.plot(points["at"], points["value"], **_style(similarity, rank, own), **_marked(points))
        _decades(axes, "y")
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    _labelled(places, x="number of the eigenvalue", y="eigenvalue / largest")
    legend(figure, [*similarity_handles(found["similarity"].unique(), curves=True), *_rank_handles(found)])
    return figure


@styled()
def draw_sensitivity(rows: pl.DataFrame, title: str) -> Figure:
    """log10 kappa of both similarities over the dimension of the subspace with intervals, and beside it over the ridge.

    `rows` as in `draw_spectra`, with `low` and `high`; the grey line is the ridge that calls are made with.
    """
    over_rank = rows.filter((pl.col("statistic") == "log10_kappa") & (pl.col("similarity") != _DIFFERENCE))
    over_ridge = rows.filter((pl.col("statistic") == "log10_kappa_of_ridge") & (pl.col("similarity") != _DIFFERENCE))
    blocks = over_rank["block"].unique(maintain_order=True).to_list()
    figure = new_figure(width=PAGE, height=0.9 + 1.35 * len(blocks))
    grid = figure.subplots(len(blocks), 2, squeeze=False)
    shipped = rows.filter((pl.col("block") == "subspace") & (pl.col("statistic") == "ridge"))["value"].to_list()
    for block, (left, right) in zip(blocks, grid, strict=True):
        left.set_title(block)
        left.set_ylabel("log10 kappa")
        _over_ranks(left, over_rank.filter(pl.col("block") == block))
        own = over_ridge.filter(pl.col("block") == block)
        for similarity, rank, curve in _curves(own):
            right.plot(curve["at"], curve["value"], **_style(similarity, rank, own))
        _decades(right, "x")
        for ridge in shipped:
            right.axvline(ridge, color=GREY, linewidth=0.8)
    grid[-1, 1].set_xlabel("ridge, times tr(F) / r")
    titled(figure, title)
    legend(figure, [*similarity_handles(over_rank["similarity"].unique(), curves=True), *_rank_handles(over_ridge)])
    return figure


@styled()
def draw_convergence(rows: pl.DataFrame, title: str) -> Figure:
    """The difference of log10 kappa, qnorm minus dnorm, from growing numbers of queries, with its intervals.

    Marks are hollow where too few pools gave no interval; those far off may lie outside of the panel.
    `rows` as in `draw_sensitivity`. A dashed line stands where every interval of the block is narrow from there on.
    """
    found = rows.filter((pl.col("statistic") == "log10_kappa_of_queries") & (pl.col("similarity") == _DIFFERENCE))
    ranks = found["rank"].unique().sort().to_list()
    looks = [numbered_look(_RANK_LOOKS[place % len(_RANK_LOOKS)]) for place in range(len(ranks))]
    figure, places = _blocks(found, title)
    for block, axes in places:
        own = found.filter(pl.col("block") == block)
        of_block = own["rank"].unique().sort().to_list()
        for _, rank, curve in _curves(own):
            shift = 2 ** (0.07 * (of_block.index(rank) - (len(of_block) - 1) / 2))  # intervals side by side
            _draw_convergence_of(axes, curve.with_columns(pl.col("at") * shift), looks[ranks.index(rank)])
        _show_what_has_intervals(axes, own)
        axes.axhline(0, color=GREY, linewidth=0.8)
        enough = rows.filter((pl.col("block") == block) & (pl.col("statistic") == "num_queries_enough"))["value"]
        for number in enough.to_list():
            axes.axvline(number, color=GREY, linewidth=0.8, linestyle="--")
        _powers_of_two(axes, own["at"].unique().sort().to_list())
    _labelled(places, x="queries", y="difference of log10 kappa")
    names = [("in no subspace" if rank is None else f"r = {rank}") for rank in ranks]
    legend(
        figure,
        [
            Line2D([], [], color=look.colour, marker=look.marker, markersize=3.5, label=name)
            for name, look in zip(names, looks, strict=True)
        ],
    )
    return figure


@styled()
def draw_densities(rows: pl.DataFrame, title: str) -> Figure:
    """The density of eigenvalues of blocks in all their dimensions; a mark at the foot is the largest eigenvalue.

    `rows` as in `draw_spectra`: statistics `whole_density` (`at` is log10 of an eigenvalue) and `whole_lambda_max`.
    """
    found = rows.filter(pl.col("statistic") == "whole_density")
    figure, places = _blocks(found, title, columns=2)
    for block, axes in places:
        of_block = rows.filter(pl.col("block") == block)
        for similarity, _, curve in _curves(of_block.filter(pl.col("statistic") == "whole_density")):
            look, points = look_of(similarity), curve.sort("at")
            axes.plot(points["at"], points["value"], color=look.colour, linestyle=look.dashes, linewidth=1.2)
            axes.fill_between(points["at"], points["value"], color=look.colour, alpha=0.12, linewidth=0)
            is_largest = (pl.col("statistic") == "whole_lambda_max") & (pl.col("similarity") == similarity)
            for largest in of_block.filter(is_largest & (pl.col("value") > 0))["value"].to_list():
                foot: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 3}
                axes.plot(math.log10(largest), 0, marker=look.marker, color=look.colour, **foot)
        _decades(axes, "y")
        numbers = of_block.filter(pl.col("statistic") == "whole_num_parameters")["value"].to_list()
        least = 0.3 / max(numbers) if numbers else _LEAST_SHARE  # less than one eigenvalue of all
        axes.set_ylim(least, max(10 * least, 3 * _largest_density(of_block)))
    _labelled(places, x="log10 of the eigenvalue", y="share of eigenvalues per decade")
    legend(figure, similarity_handles(found["similarity"].unique(), curves=True))
    return figure


def _largest_density(rows: pl.DataFrame) -> float:
    """The largest density among the rows."""
    return max(rows.filter(pl.col("statistic") == "whole_density")["value"].to_list())


_RANK_LOOKS = (0, 6, 4, 1, 5)  # black, blue, vermilion, orange, pink: none of which is qnorm's or dnorm's


def _draw_convergence_of(axes: Axes, curve: pl.DataFrame, look: Look) -> None:
    axes.plot(curve["at"], curve["value"], color=look.colour, linewidth=1.0)
    for at, value, low in curve.select("at", "value", "low").rows():
        face = "white" if low is None else look.colour
        style: dict[str, Any] = {"color": look.colour, "markerfacecolor": face, "markersize": 3.5}
        axes.plot(at, value, linestyle="none", marker=look.marker, **style)
    _intervals(axes, curve, look.colour)


def _show_what_has_intervals(axes: Axes, rows: pl.DataFrame) -> None:
    """Leave out of the panel what a few pools gave by chance, which would press all else flat."""
    known = rows.drop_nulls(["low", "high"])
    if known.height:
        ends = [0.0, *known["low"].to_list(), *known["high"].to_list()]
        room = 0.15 * (max(ends) - min(ends)) or 1.0
        axes.set_ylim(min(ends) - room, max(ends) + room)


def _blocks(rows: pl.DataFrame, title: str, *, columns: int = _COLUMNS) -> tuple[Figure, list[tuple[str, Axes]]]:
    """A figure with axes for each block of the rows."""
    blocks = rows["block"].unique(maintain_order=True).to_list()
    width = PAGE if len(blocks) > 1 else COLUMN
    figure = new_figure(width=width, height=0.9 + _PANEL_HEIGHT * -(-len(blocks) // columns))
    places = list(zip(blocks, panels(figure, len(blocks), columns=columns), strict=True))
    for block, axes in places:
        axes.set_title(block)
    titled(figure, title)
    return figure, places


def _labelled(places: Sequence[tuple[str, Axes]], *, x: str, y: str) -> None:
    for _, axes in places:
        axes.set_xlabel(x)
    for _, axes in places[::_COLUMNS]:
        axes.set_ylabel(y)


def _curves(rows: pl.DataFrame) -> Iterator[tuple[str, int | None, pl.DataFrame]]:
    """(similarity, dimension of the subspace, its rows), similarities in the catalogue's order."""
    names = in_catalogue_order(rows["similarity"].unique()) or rows["similarity"].unique(maintain_order=True).to_list()
    for similarity in names:
        own = rows.filter(pl.col("similarity") == similarity)
        for rank in own["rank"].unique().sort().to_list():
            yield similarity, rank, own.filter(pl.col("rank").eq_missing(pl.lit(rank, dtype=pl.Int64))).sort("at")


def _style(similarity: str, rank: int | None, rows: pl.DataFrame) -> dict[str, Any]:
    """Thick where the subspace is the largest of the block, thinner the smaller it is."""
    look, ranks = look_of(similarity), rows["rank"].unique().sort().to_list()
    share = 1.0 if len(ranks) < 2 else ranks.index(rank) / (len(ranks) - 1)
    return {"color": look.colour, "linestyle": look.dashes, "linewidth": _THIN + share * (_THICK - _THIN)}


def _marked(points: pl.DataFrame) -> dict[str, Any]:
    """Marks where so few points make a line that nobody would see."""
    return {"marker": ".", "markersize": 5} if points.height <= 2 else {}


def _over_ranks(axes: Axes, rows: pl.DataFrame) -> None:
    ranks = rows["rank"].drop_nulls().unique().sort().to_list()
    names = in_catalogue_order(rows["similarity"].unique())
    for place, similarity in enumerate(names):
        look, own = look_of(similarity), rows.filter(pl.col("similarity") == similarity).sort("rank")
        own = own.with_columns(at=pl.col("rank").fill_null(1) * 2 ** (0.1 * (place - (len(names) - 1) / 2)))
        style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 3.5, "linewidth": 1.0}
        axes.plot(own["at"], own["value"], linestyle=look.dashes, **style)
        _intervals(axes, own, look.colour)
    _powers_of_two(axes, ranks)
    axes.set_xlabel("dimension r of the subspace" if ranks else "in no subspace")
    if not ranks:
        axes.set_xlim(0.5, 2)


def _decades(axes: Axes, of: Literal["x", "y"]) -> None:
    """A logarithmic axis labelled in plain numbers: names are drawn as they are, so that powers would be, too."""
    axis = axes.xaxis if of == "x" else axes.yaxis
    (axes.set_xscale if of == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(numticks=5))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def _intervals(axes: Axes, points: pl.DataFrame, colour: str) -> None:
    known = points.drop_nulls(["low", "high"])
    axes.vlines(known["at"], known["low"], known["high"], color=colour, linewidth=1.0)


def _powers_of_two(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _rank_handles(rows: pl.DataFrame) -> list[Line2D]:
    """What thin and thick lines are."""
    ranks = rows["rank"].drop_nulls().unique().sort().to_list()
    if len(ranks) < 2:
        return []
    ends = ((f"r = {ranks[0]}", _THIN), (f"r = {ranks[-1]}", _THICK))
    return [Line2D([], [], color=GREY, linewidth=width, label=label) for label, width in ends]


def _of(statistic: str, *, what: str) -> Callable[[PlotSource], pl.DataFrame]:
    """The rows of those probes that have a statistic; NothingToDrawError where none has, which is `what`."""

    def rows(source: PlotSource) -> pl.DataFrame:
        probes = named_probes(source.collected.probes, source.options.where)
        is_empirical = pl.col("block").str.starts_with(_EMPIRICAL)
        named = probes.with_columns(
            init_regime="regime",
            information=pl.when(is_empirical).then(pl.lit("empirical Fisher")).otherwise(pl.lit("Fisher")),
            block=pl.col("block").str.strip_prefix(_EMPIRICAL),
        )
        drawn = named.filter(pl.col("statistic") == statistic)
        if drawn.is_empty():
            raise NothingToDrawError(f"no probe has {what}")
        return named.join(drawn.select("probe_id", "information").unique(), on=["probe_id", "information"], how="semi")

    return rows


def _of_probes(
    *, name: str, title: str, reading: str, statistic: str, what: str, draw: Callable[[pl.DataFrame, str], Figure]
) -> Plot:
    """A plot with a figure for each probe that has a statistic; it has the holes of the predictions."""
    rows, holes = _of(statistic, what=what), holes_of("predictions")
    return Plot(name=name, title=title, reading=reading, rows=rows, by=_BY, holes=holes, draw=draw)


SPECTRA = _of_probes(
    name="spectra",
    title="Eigenvalues of the Fisher information",
    reading=(
        "Eigenvalues in the shared subspace over the largest one: the lower a curve ends, the larger kappa. Thin lines "
        "are smaller subspaces; gamma has two eigenvalues in no subspace."
    ),
    statistic="eigenvalue",
    what="eigenvalues",
    draw=draw_spectra,
)
SENSITIVITY = _of_probes(
    name="kappa_sensitivity",
    title="Sensitivity of log10 kappa",
    reading=(
        "Left: over the dimension of the shared subspace, with intervals; a call needs the same side below at each. "
        "Right: over the ridge, the grey line being the one that is used; a slope there means that the ridge decides, "
        "not the data."
    ),
    statistic="log10_kappa_of_ridge",
    what="log10 kappa over a grid of ridges",
    draw=draw_sensitivity,
)
CONVERGENCE = _of_probes(
    name="kappa_convergence",
    title="Convergence of the difference in log10 kappa",
    reading=(
        "qnorm minus dnorm from an eighth, a quarter, a half and all of the pools. More queries narrow the intervals; "
        "right of the dashed line each is narrow. Hollow marks have no interval, and may lie outside of a panel."
    ),
    statistic="log10_kappa_of_queries",
    what="log10 kappa over numbers of queries",
    draw=draw_convergence,
)
DENSITIES = _of_probes(
    name="fisher_densities",
    title="Density of eigenvalues",
    reading=(
        "The share of eigenvalues in a decade, of blocks in all their dimensions; marks at the foot are the largest "
        "ones. What lies far left are directions that hardly change a loss; a rise at the very end, of one similarity "
        "or both, is of directions without information that Lanczos did not resolve, cut off where the axis begins."
    ),
    statistic="whole_density",
    what="a block 'head' or 'weights' (probe.blocks asks for them)",
    draw=draw_densities,
)
PLOTS = (SPECTRA, SENSITIVITY, CONVERGENCE, DENSITIES)
