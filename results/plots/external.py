"""External numbers in plots of gains: pale marks beside ours, each with the number of its source."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from results.plots.plot import PlotSource
from results.plots.style import shortened
from results.tables.references import KIND


def is_external(row: Mapping[str, Any]) -> bool:
    """Whether others made the row's number."""
    return row.get("kind") == KIND


def external_rows(rows: pl.DataFrame) -> pl.Expr:
    """The same of all rows; plain rows without a kind are ours."""
    return pl.col("kind") == KIND if "kind" in rows.columns else pl.lit(value=False)


def external_gains(source: PlotSource, table: str, ours: pl.DataFrame) -> pl.DataFrame:
    """The gains of references in a table, on groups or data sets that `ours` has too; the baseline's own are 0."""
    rows = source.table(table).rows.with_row_index("row")
    is_shown = (pl.col("kind") == KIND) & pl.col("gain").is_not_null() & pl.col("group").is_in(ours["group"].implode())
    found = rows.filter(is_shown & (pl.col("similarity") != source.options.baseline))
    return found.with_columns(baseline=pl.lit(source.options.baseline))


def of_models(found: pl.DataFrame, ours: pl.DataFrame) -> pl.DataFrame:
    """References as rows of our models that they are of, once at each scale: `model`, `init_regime`, `scale` are ours.

    A reference is of the model whose family or name it has, in any case; one without init regime is of every one.
    """
    models = ours.select("family", "model", "init_regime", "scale").unique(maintain_order=True)
    columns = [name for name in found.columns if name not in ("family", "model", "init_regime", "scale")]
    rows = []
    for row in found.iter_rows(named=True):
        for like in models.iter_rows(named=True):
            is_named = row["model"].casefold() in (like["family"].casefold(), like["model"].casefold())
            has_it = ours.filter(pl.col("group") == row["group"], model=like["model"], init_regime=like["init_regime"])
            if is_named and row["init_regime"] in (None, like["init_regime"]) and has_it.height:
                rows.append({**{name: row[name] for name in columns}, **like})
    return pl.DataFrame(rows, schema=found.schema).select(found.columns)


def with_sources(label: str, rows: pl.DataFrame) -> str:
    """A label of an axis with a line for each source below it: its number and name, which a legend has no room for."""
    if "source_name" not in rows.columns:
        return label
    named = rows.drop_nulls("source_name").select("source", "source_name").unique(maintain_order=True)
    return "\n".join([label, *(f"{number} {shortened(name, 36)}" for number, name in named.rows())])
