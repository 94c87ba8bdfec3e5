"""What a sweep showed: all tables, plots, the report and the headline; into its folder, and for tracking."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from orchestrator.descriptions import MAX_DESCRIPTION
from orchestrator.run_metrics import of_tier
from orchestrator.show import collected_rows
from results.collect import Collected
from results.headline import headline
from results.layout import SweepRecord
from results.rendering import export
from results.rendering.fitting import fitted
from results.store import Store
from results.tables.built import BuiltTables, build_tables
from results.tables.table import Table, TableOptions

_BASELINE = TableOptions().baseline
_MAX_GAINS, _MAX_METRICS = 40, 48  # numbers of the parent run, which stays under 50


@dataclass(frozen=True, kw_only=True)
class SweepSummary:
    """What the sweep's own run shows: a description in Markdown, files by their path, numbers; how much is missing."""

    description: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    num_missing: int = 0


def export_all(store: Store, record: SweepRecord) -> SweepSummary:
    """Tables with holes marked, plots, the report, and headline gains; the files are also written into the folder."""
    collected = collected_rows(store, record)
    built = build_tables(collected, TableOptions())
    tables = built.tables
    texts = {
        f"tables/{name}": text.encode()
        for table in tables.values()
        for output_format in ("md", "csv", "latex", "json")
        for name, text in export(table, output_format, allow_missing=True).items()
    }
    files = {**texts, **_drawn_files(collected, built)}
    for key, data in files.items():
        store.write(key, data)
    return SweepSummary(
        description=_description(collected, tables, texts),
        files=files,
        metrics=_headline_gains(tables["gains"].rows, record.primary_groups) if "gains" in tables else {},
        num_missing=len(collected.missing),
    )


def _description(collected: Collected, tables: Mapping[str, Table], texts: Mapping[str, bytes]) -> str:
    """The headline gains, or the beginning of the first other table, and how far the sweep is whole."""
    record = collected.record
    parts = [_counted(len(record.trials), "trial"), _counted(len(record.probes), "probe")]
    parts += [f"{len(collected.missing)} missing"] if collected.missing else []
    listed = ", ".join(f"`tables/{name}.md`" for name in tables)
    whole = f"Whole tables: artifacts {listed}. {', '.join(parts)}."
    if "gains" in tables:
        rows, primary = tables["gains"].rows, record.primary_groups
        if _is_of_pools(rows):
            whole = (
                f"Scores on pools, parts of each corpus: `tables/gains.md` says how far they are to be trusted. {whole}"
            )
        return headline(rows, baseline=_BASELINE, primary_groups=primary, limit=MAX_DESCRIPTION, whole=whole)
    first = next(iter(tables), None)
    lines = texts[f"tables/{first}.md"].decode().rstrip().splitlines() if first else []
    return fitted(lines, [whole], MAX_DESCRIPTION)


def _is_of_pools(gains: pl.DataFrame) -> bool:
    """Whether a table of gains is of the evaluation tier 'pool': no table is of two."""
    return "pool" in gains["tier"]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _drawn_files(collected: Collected, built: BuiltTables) -> dict[str, bytes]:
    """The first figures of every plot as SVG under `plots/`, and the report, which shows them."""
    # Here, since matplotlib takes half a second that no other command spends.
    from results.plots.drawn import drawn_plots
    from results.plots.plot import PlotSource
    from results.report.page import FILE_NAME, render

    plots = drawn_plots(PlotSource(collected=collected, built=built, options=TableOptions()))
    files = {f"plots/{figure.file_name}.svg": figure.svg for plot in plots for figure in plot.figures}
    return {**files, FILE_NAME: render(collected, built, plots)}


def _headline_gains(rows: pl.DataFrame, primary_groups: Sequence[str]) -> dict[str, float]:
    """Gains in points (times 100) per family, regime, scale, group and similarity: at most 40, intervals as room is.

    Those on primary groups come first, in the table's order; the baseline has none. The ends of a gain's interval for
    these data sets are `gain_low/...` and `gain_high/...`.
    """
    has_gain = (pl.col("kind") == "train") & (pl.col("similarity") != _BASELINE) & pl.col("gain").is_not_null()
    primary_first = ~pl.col("group").is_in(list(primary_groups))
    trained = rows.filter(has_gain).sort(primary_first, maintain_order=True).head(_MAX_GAINS)
    several_scales = trained["scale"].n_unique() > 1
    named = [(_gain_place(row, several_scales), row) for row in trained.iter_rows(named=True)]
    metrics = {f"gain/{place}": 100 * row["gain"] for place, row in named}
    for place, row in named:
        if row["gain_low"] is not None and len(metrics) + 2 <= _MAX_METRICS:
            metrics |= {f"gain_{end}/{place}": 100 * row[f"gain_{end}"] for end in ("low", "high")}
    return metrics


def _gain_place(row: Mapping[str, Any], several_scales: bool) -> str:
    """'GROUP/MODEL/REGIME/SIMILARITY', with the scale as 'matched_20' where there are several, GROUP.pool on pools."""
    scale = "/" + re.sub(r"[()]", "_", row["scale"]).rstrip("_") if several_scales else ""
    return (
        f"{of_tier(row['group'], row['tier'])}/{row['model']}/{row['init_regime']}{scale}/{row['similarity']}".replace(
            " ", "_"
        )
    )
