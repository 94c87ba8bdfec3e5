"""What `densesweep plots` and `densesweep report` write: figures of a sweep as files, and the page of all it showed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from orchestrator.outputs import output_folder, write_output
from orchestrator.show_tables import chosen_rows
from results.plots import PLOTS
from results.plots.drawn import drawn_plots
from results.plots.files import FILES
from results.plots.plot import Drawing, NothingToDrawError, PlotSource, drawings
from results.refusals import refusal
from results.report.page import render
from results.selection import SelectionError
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
    allow_missing: bool
    options: TableOptions


def write_plots(source: Source, request: PlotsRequest, console: Console) -> None:
    """Draw the plots asked for, and say of which there is nothing.

    Raises:
        InputError: no such plot, one asked for by name of which there is nothing, a choice that cannot be made, or a
            plot that lacks something where that is not allowed.
    """
    if unknown := [name for name in request.names if name not in PLOTS]:
        told = [unknown_name("plot", name, list(PLOTS)) for name in unknown]
        raise InputError(Problem(where="plots", key="", message=message) for message in told)
    drawn_from = _source(source, request.options)
    faults: list[Problem] = []
    holes: dict[str, tuple[str, ...]] = {}
    for name in request.names or tuple(PLOTS):
        try:
            figures = drawings(PLOTS[name], drawn_from)
        except (NothingToDrawError, SelectionError) as error:
            if name in request.names:
                faults.append(Problem(where=source.uri, key=name, message=str(error)))
            else:
                console.print(f"Nothing to draw for '{name}': {error}", markup=False, highlight=False, soft_wrap=True)
            continue
        if missing := PLOTS[name].holes(drawn_from):
            holes[name] = missing
        if not missing or request.allow_missing:
            _write(figures, request, console)
    if holes and request.allow_missing:
        lacking = "; ".join(f"'{name}' lacks {len(lines)}" for name, lines in holes.items())
        print(f"note: drawn without what is missing, which table 'missing' lists: {lacking}", file=sys.stderr)
    elif holes:
        message = refusal(holes, drawn_from.collected, "plot")
        faults.append(Problem(where=source.uri, key="holes", message=message))
    if faults:
        raise InputError(faults)


def write_report(source: Source, output: Path, options: TableOptions, console: Console) -> None:
    """Write the report.

    Raises:
        InputError: a choice that cannot be made.
    """
    shown = _source(source, options)
    page = render(shown.collected, shown.built, drawn_plots(shown))
    output_folder(output.parent)
    write_output(output, page)
    console.print(str(output), markup=False, highlight=False, soft_wrap=True)


def _source(source: Source, options: TableOptions) -> PlotSource:
    collected = chosen_rows(source, options.where)
    return PlotSource(collected=collected, built=build_tables(collected, options), options=options)


def _write(figures: Sequence[Drawing], request: PlotsRequest, console: Console) -> None:
    output_folder(request.output)
    for figure in figures:
        drawn = figure.draw()
        for name in FILES if request.output_format == "all" else (request.output_format,):
            path = request.output / f"{figure.file_name}.{name}"
            write_output(path, FILES[name](drawn))
            console.print(str(path), markup=False, highlight=False, soft_wrap=True)
