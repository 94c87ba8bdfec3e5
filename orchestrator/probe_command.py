"""`densesweep probe`: what every predictor says of a sweep's starting encoders, without training them."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from orchestrator.only import PILOT, PROBE
from orchestrator.run import Request, run_sweep
from orchestrator.show import collected_rows
from results.collect import Collected
from results.layout import SweepRecord
from results.rendering import export
from results.store import Store
from results.tables.predictions import build
from results.tables.table import TableOptions

TABLE = "predictions"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The table in which format, to standard output or, with the spectrum plots, into a folder."""

    output_format: str
    output: Path | None


def run_probes(request: Request, shown: Shown, *, with_pilots: bool) -> int:
    """Run what a sweep file has left of probes, in its own folder, and show what they say; returns the exit code.

    `request.console` takes lines for people, which the table is no part of. With pilots those of the file are trained
    too; nothing else is.

    Raises:
        InputError: as `run_sweep`.
    """

    def show(store: Store, record: SweepRecord, console: Console) -> None:
        collected = collected_rows(store, record)
        files = export(build(collected, TableOptions()), shown.output_format, allow_missing=True)
        if shown.output is None:
            print(next(iter(files.values())).rstrip())
            return
        shown.output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (shown.output / name).write_text(text, encoding="utf-8")
            print(shown.output / name)
        _draw(collected, shown.output)

    kinds, again = ({PROBE, PILOT}, ("probe", "--pilot")) if with_pilots else ({PROBE}, ("probe",))
    return run_sweep(replace(request, kinds=frozenset(kinds), show=show, again_as=again))


def _draw(collected: Collected, output: Path) -> None:
    """Every plot of probes as PDF, SVG and PNG; of what a sweep computes no block there is none."""
    # Here, since matplotlib takes half a second.
    from results.plots.files import FILES
    from results.plots.plot import NothingToDrawError, PlotSource, drawings
    from results.plots.spectra import PLOTS
    from results.tables.built import BuiltTables

    source = PlotSource(collected=collected, built=BuiltTables(tables={}, refused={}), options=TableOptions())
    for plot in PLOTS:
        try:
            figures = drawings(plot, source)
        except NothingToDrawError:
            continue
        for figure in figures:
            drawn = figure.draw()
            for kind, write in FILES.items():
                path = output / f"{figure.file_name}.{kind}"
                path.write_bytes(write(drawn))
                print(path)
