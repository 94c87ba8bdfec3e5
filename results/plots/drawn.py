"""All plots of a sweep drawn as SVG, for the report and the sweep folder; those of which there is nothing say why."""

from collections.abc import Iterable
from dataclasses import dataclass

from results.plots import PLOTS
from results.plots.files import svg
from results.plots.plot import MOST_FIGURES, Drawing, NothingToDrawError, Plot, PlotSource, drawings
from results.plots.style import COLUMN
from results.selection import SelectionError


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure as an SVG file.

    `label` says of what part of the sweep it is, `file_name` has no ending; a wide one takes more than a column.
    """

    label: str
    file_name: str
    svg: bytes
    is_wide: bool


@dataclass(frozen=True, kw_only=True)
class DrawnPlot:
    """The first figures of a plot, how many more there are, and `reason` where there is none."""

    plot: Plot
    figures: tuple[DrawnFigure, ...] = ()
    num_more: int = 0
    reason: str | None = None


def drawn_plots(source: PlotSource, plots: Iterable[Plot] = tuple(PLOTS.values())) -> list[DrawnPlot]:
    """Each plot with at most MOST_FIGURES figures: a sweep of many models would make a page that nobody can open."""
    return [_drawn(plot, source) for plot in plots]


def _drawn(plot: Plot, source: PlotSource) -> DrawnPlot:
    try:
        figures = drawings(plot, source)
    except (NothingToDrawError, SelectionError) as error:
        return DrawnPlot(plot=plot, reason=str(error))
    return DrawnPlot(
        plot=plot,
        figures=tuple(_drawn_figure(drawing) for drawing in figures[:MOST_FIGURES]),
        num_more=max(0, len(figures) - MOST_FIGURES),
    )


def _drawn_figure(drawing: Drawing) -> DrawnFigure:
    figure = drawing.draw()
    is_wide = figure.get_figwidth() > COLUMN
    return DrawnFigure(label=drawing.label, file_name=drawing.file_name, svg=svg(figure), is_wide=is_wide)
