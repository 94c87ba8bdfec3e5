"""Plots over the steps of trainings: `losses` of all similarities of a model, `gammas` where they are learned."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from results.histories import histories
from results.missing import MissingKind
from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of
from results.plots.style import (
    COLUMN,
    DASHES,
    GREY,
    OKABE_ITO,
    legend,
    look_of,
    new_figure,
    similarity_handles,
    styled,
    thinned,
    titled,
)
from results.selection import select_trials
from results.tables.parts import missing_lines, model_name
from search_spaces.catalogue.similarities import SIMILARITIES

_MODEL = ("model", "init_regime", "training_data", "scale")


def _by_steps(what: str, title: str) -> tuple[Figure, Axes]:
    """An empty drawing of something over optimiser steps."""
    figure = new_figure(width=COLUMN, height=2.6)
    axes = figure.add_subplot()
    axes.set(xlabel="optimiser step", ylabel=what)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    titled(figure, title)
    return figure, axes


@styled()
def draw_losses(history: pl.DataFrame, title: str) -> Figure:
    """The loss of each trial by its steps, in the colour of its similarity.

    `history` has `trial_id`, `similarity`, `step` and `loss`; steps of a trial are in order.
    """
    figure, axes = _by_steps("loss", title)
    for (_, similarity), curve in history.group_by(["trial_id", "similarity"], maintain_order=True):
        look, points = look_of(str(similarity)), thinned(curve)
        axes.plot(points["step"], points["loss"], color=look.colour, linestyle=look.dashes, linewidth=1.1)
    least, most = history["loss"].min(), history["loss"].max()
    if isinstance(least, float) and isinstance(most, float) and 0 < 10 * least < most:
        axes.set_yscale("log")  # one loss far above the others would press them flat
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    legend(figure, similarity_handles(history["similarity"], curves=True))
    return figure


@styled()
def draw_gammas(history: pl.DataFrame, title: str) -> Figure:
    """Both gammas of each trial that learns them, by its steps; grey lines are the fixed similarities.

    `history` has `trial_id`, `step`, `gamma_q` and `gamma_d`; steps of a trial are in order.
    """
    figure, axes = _by_steps("gamma", title)
    for value in (0, 1):  # gammas of the fixed similarities
        axes.axhline(value, color=GREY, linewidth=0.6)
    sides = (("gamma_q", "queries (gamma q)", 6, 0), ("gamma_d", "documents (gamma d)", 4, 1))
    for column, label, colour, dash in sides:
        for place, (_, curve) in enumerate(history.group_by("trial_id", maintain_order=True)):
            points = thinned(curve)
            style: dict[str, Any] = {"color": OKABE_ITO[colour], "linestyle": DASHES[dash], "linewidth": 1.2}
            axes.plot(points["step"], points[column], label=label if place == 0 else None, **style)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def _histories(source: PlotSource) -> pl.DataFrame:
    found = histories(source.collected, source.options.where).with_columns(model_name())
    if found.is_empty():
        raise NothingToDrawError("no training has left its steps yet")
    return found


def _learned(source: PlotSource) -> pl.DataFrame:
    trained = [similarity.name for similarity in SIMILARITIES.values() if similarity.trained]
    found = _histories(source).filter(pl.col("similarity").is_in(trained))
    if found.is_empty():
        raise NothingToDrawError(f"no similarity with learned gammas is trained ({', '.join(trained)})")
    return found


def _trials_missing(source: PlotSource) -> tuple[str, ...]:
    chosen = select_trials(source.collected.every_trial, source.options.where)
    kinds: tuple[MissingKind, ...] = ("trial",)
    return tuple(missing_lines(source.collected, chosen, kinds))


LOSSES = Plot(
    name="losses",
    title="Loss",
    reading="The loss by optimiser step, a curve for each trial. Losses of different scales are not comparable.",
    rows=_histories,
    by=_MODEL,
    draw=draw_losses,
    holes=_trials_missing,
)
GAMMAS = Plot(
    name="gammas",
    title="Learned gammas",
    reading="Both gammas by optimiser step, a curve for each trial: 1 divides by the norm, 0 keeps it.",
    rows=_learned,
    by=_MODEL,
    draw=draw_gammas,
    holes=holes_of("learned_gamma"),
)
