"""What `densesweep plots` and `densesweep report` write: figures of a sweep as files, and the page of all it showed."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from orchestrator.show import source_rows
from results.plots import PLOTS
from results.plots.drawn import drawn_plots
from results.plots.files import FILES
from results.plots.plot import NothingToDrawError, Plot, PlotSource, drawings
from results.report.page import render
from results.selection import SelectionError, select_trials
from results.sources import Source
from results.tables.built import build_tables
from results.tables.table import TableOptions
from search_spaces.problems import InputError, Problem, unknown_name


@dataclass(frozen=True, kw_only=True)
class PlotsRequest:
    """Which plots (none: all), in which format, or in 'all', into which folder."""

    names: tuple[str, ...]
    output_format: str
    output: Path
    options: TableOptions


def write_plots(source: Source, request: PlotsRequest, console: Console) -> None:
    """Draw the plots asked for, and say of which there is nothing.

    Raises:
        InputError: no such plot, one asked for by name of which there is nothing, or a choice that cannot be made.
    """
    for name in request.names:
        if name not in PLOTS:
            raise InputError([Problem(where="plots", key="", message=unknown_name("plot", name, list(PLOTS)))])
    drawn_from = _source(source, request.options)
    faults: list[Problem] = []
    for name in request.names or tuple(PLOTS):
        try:
            _write(PLOTS[name], drawn_from, request, console)
        except (NothingToDrawError, SelectionError) as error:
            if name in request.names:
                faults.append(Problem(where=source.uri, key=name, message=str(error)))
            else:
                console.print(f"Nothing to draw for '{name}': {error}", markup=False, highlight=False, soft_wrap=True)
    if faults:
        raise InputError(faults)


def write_report(source: Source, output: Path, options: TableOptions, console: Console) -> None:
    """Write the report.

    Raises:
        InputError: a choice that cannot be made.
    """
    shown = _source(source, options)
    page = render(shown.collected, shown.built, drawn_plots(shown))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(page)
    console.print(str(output), markup=False, highlight=False, soft_wrap=True)


def _source(source: Source, options: TableOptions) -> PlotSource:
    collected = source_rows(source)
    try:
        select_trials(collected.expected, options.where)
    except SelectionError as error:  # of everything: else each table and plot would say so on its own
        raise InputError([Problem(where=source.uri, key="", message=str(error))]) from error
    return PlotSource(collected=collected, built=build_tables(collected, options), options=options)


def _write(plot: Plot, source: PlotSource, request: PlotsRequest, console: Console) -> None:
    figures = drawings(plot, source)
    request.output.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        drawn = figure.draw()
        for name in FILES if request.output_format == "all" else (request.output_format,):
            path = request.output / f"{figure.file_name}.{name}"
            path.write_bytes(FILES[name](drawn))
            console.print(str(path), markup=False, highlight=False, soft_wrap=True)
