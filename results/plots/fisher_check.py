"""Plot `fisher_check`: a predictor's difference before training against the difference in score after it."""

from collections.abc import Iterator

import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of, line_name
from results.plots.style import COLUMN, GREY, mark, new_figure, numbered_look, shortened, styled, titled
from results.predicting.prediction import OTHER, Side
from results.predictions import PREDICTORS


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """A mark for each model and init regime, in the quadrants where the call holds and where it fails.

    `rows` are of table `fisher_check` and one `predictor`: `model`, `init_regime`, `scale`, `seed`, `difference_min`,
    `difference_max`, `low`, `high` (qnorm - dnorm of the statistic), `qnorm_min` (None where the predictor sees no
    sides), `qnorm_score`, `dnorm_score`, `gain_low`, `gain_high` (0 to 1), `call`.
    """
    several_scales = rows["scale"].n_unique() > 1
    names = [line_name(row, with_scale=several_scales) for row in rows.iter_rows(named=True)]
    order = list(dict.fromkeys(names))
    figure = new_figure(width=COLUMN, height=2.9 + 0.16 * len(order))
    axes = figure.add_subplot()
    for name, row in zip(names, rows.iter_rows(named=True), strict=True):
        look = numbered_look(order.index(name))
        gain = 100 * (row["qnorm_score"] - row["dnorm_score"])
        if row["low"] is not None and row["high"] is not None:
            axes.plot([row["low"], row["high"]], [gain, gain], color=look.colour, linewidth=1.0)
        middle = (row["difference_min"] + row["difference_max"]) / 2
        if row["gain_low"] is not None and row["gain_high"] is not None:
            axes.plot(
                [middle, middle], [100 * row["gain_low"], 100 * row["gain_high"]], color=look.colour, linewidth=1.0
            )
        mark(axes, middle, gain, look, filled=row["call"] in ("qnorm", "dnorm"))
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=_centred(axes.get_xlim()), ylim=_centred(axes.get_ylim()))
    axes.set(xlabel=_before_training(rows), ylabel="score: qnorm minus dnorm, points")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    titled(figure, title)
    for text, x, y in _quadrants(PREDICTORS[rows["predictor"][0]].positive):
        ha, va = ("left" if x < 0.5 else "right"), ("bottom" if y < 0.5 else "top")
        axes.text(x, y, text, transform=axes.transAxes, ha=ha, va=va, color=GREY, fontsize=7, zorder=0)
    _legend(figure, order)
    return figure


def _before_training(rows: pl.DataFrame) -> str:
    """What stands along the axis, in two lines: one would be wider than a column."""
    sides = ": qnorm minus dnorm" if rows["qnorm_min"].drop_nulls().len() else ""
    return f"{rows['statistic'][0]}{sides}\nbefore training"


def _quadrants(positive: Side) -> Iterator[tuple[str, float, float]]:
    """What each quadrant means, at its place of the axes: right of 0 `positive` is called, above 0 qnorm won."""
    for x, called in ((0.02, OTHER[positive]), (0.98, positive)):
        for y, winner in ((0.98, "qnorm"), (0.02, "dnorm")):
            yield f"{'hit' if called == winner else 'miss'}: calls {called}", x, y


def _legend(figure: Figure, names: list[str]) -> None:
    looks = [(name, numbered_look(place)) for place, name in enumerate(names)]
    handles = [
        Line2D([], [], linestyle="none", marker=look.marker, color=look.colour, label=shortened(name))
        for name, look in looks
    ]
    figure.legend(handles=handles, frameon=False, loc="outside lower center")


def _centred(limits: tuple[float, float]) -> tuple[float, float]:
    """0 in the middle, so that the four quadrants are of one size, and room for their names."""
    reach = 1.15 * max(abs(limit) for limit in limits)
    return -reach, reach


def _rows(source: PlotSource) -> pl.DataFrame:
    rows = source.table("fisher_check").rows
    known = rows.drop_nulls(["difference_min", "difference_max", "qnorm_score", "dnorm_score"])
    if known.is_empty():
        raise NothingToDrawError("no cell has both a probe's difference and scores of qnorm and dnorm")
    return known


PLOT = Plot(
    name="fisher_check",
    title="Fisher check",
    reading=(
        "Above 0 qnorm won; the quadrants say on which side of 0 the predictor speaks for it. Bars along span its "
        "intervals, those of kappa over the grid of subspace dimensions; upright ones are the 95 % interval of the "
        "scores' difference, and a tie where they cross 0. A hollow mark is no call."
    ),
    rows=_rows,
    by=("predictor", "training_data", "group"),
    draw=draw,
    holes=holes_of("fisher_check"),
)
