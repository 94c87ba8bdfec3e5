"""The report as one page: HTML with its style, script and pictures in it.

Names and reasons come from sweep files and from programs' messages, so everything is escaped, and the page's own policy
lets only its one script run, by its hash: what slips through is shown, not executed.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from results.collect import Collected
from results.layout import SweepRecord
from results.plots.drawn import DrawnFigure, DrawnPlot
from results.report.provenance import provenance
from results.report.table_view import table_view
from results.tables.built import BuiltTables

FILE_NAME = "report.html"


@dataclass(frozen=True, kw_only=True)
class _PlotView:
    name: str
    title: str
    reading: str
    figures: tuple[tuple[DrawnFigure, str], ...]  # with its data URI
    num_more: int
    reason: str | None


def render(collected: Collected, built: BuiltTables, plots: Sequence[DrawnPlot]) -> bytes:
    """The page, in UTF-8: the same bytes for the same rows."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    style, script = _part("report.css"), _part("report.js")
    page = environment.from_string(_part("report.html.j2")).render(
        record=collected.record,
        facts=list(_facts(collected)),
        warnings=collected.warnings,
        num_missing=len(collected.lacking),
        tables=[table_view(table) for table in built.tables.values()],
        refused=dict(built.refused),
        plots=[_plot_view(drawn) for drawn in plots],
        provenance=provenance(collected),
        # Both are files of this package, with nothing of a sweep in them.
        style=Markup(style),
        script=Markup(script),
        style_hash=_policy_hash(style),
        script_hash=_policy_hash(script),
    )
    return page.encode()


def _part(name: str) -> str:
    return files("results.report").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _facts(collected: Collected) -> Iterable[tuple[str, str]]:
    record = collected.record
    done = collected.trials.height
    yield "Trials", f"{done} of {len(record.trials)} trained"
    probed = collected.probes["probe_id"].n_unique()
    yield "Probes", f"{probed} of {len(record.probes)} done" if record.probes else "none asked for"
    yield "Data sets", _data_sets(record)
    yield "Primary groups", ", ".join(record.primary_groups) or "none"
    yield "Missing", f"{len(collected.lacking)} (listed below)" if collected.lacking else "nothing"


def _data_sets(record: SweepRecord) -> str:
    wholes = dict.fromkeys(evaluation.whole for evaluation in record.evaluations)
    groups = dict.fromkeys(group for evaluation in record.evaluations for group in evaluation.groups)
    return f"{len(wholes)} in {len(groups)} groups ({', '.join(groups)})" if groups else f"{len(wholes)}, in no group"


def _plot_view(drawn: DrawnPlot) -> _PlotView:
    return _PlotView(
        name=drawn.plot.name,
        title=drawn.plot.title,
        reading=drawn.plot.reading,
        figures=tuple((figure, _data_uri(figure)) for figure in drawn.figures),
        num_more=drawn.num_more,
        reason=drawn.reason,
    )


def _data_uri(figure: DrawnFigure) -> str:
    """As a picture, not as part of the page: its ids and letters then stand apart from those of the others."""
    return f"data:image/svg+xml;base64,{base64.b64encode(figure.svg).decode()}"
