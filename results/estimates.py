"""Estimates as columns of a frame, and the marks of their p values."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from results.statistics.corrections import Correction, adjust
from results.statistics.estimate import Estimate

LEVELS = (0.05, 0.01, 0.001)
FIXED_SEEDS = "these seeds only"


def interval_columns(prefix: str, estimate: Estimate | None) -> dict[str, Any]:
    """`PREFIX_low`, `PREFIX_high`, `PREFIX_p` and `PREFIX_reason`: why one of them is absent."""
    names = ("low", "high", "p", "reason")
    return {f"{prefix}_{name}": getattr(estimate, name) if estimate else None for name in names}


def interval_types(prefix: str) -> dict[str, Any]:
    """The types of `interval_columns`."""
    return {**{f"{prefix}_{name}": pl.Float64 for name in ("low", "high", "p")}, f"{prefix}_reason": pl.String}


def adjusted(rows: pl.DataFrame, p: str, into: str, correction: Correction) -> pl.DataFrame:
    """The rows with p values adjusted over all of them; one that is absent is no test."""
    return rows.with_columns(pl.Series(into, adjust(rows[p].to_list(), correction), dtype=pl.Float64))


def mark(row: Mapping[str, Any], p: str = "adjusted_p", sources: str = "sources") -> str:
    """A star for each of LEVELS that an adjusted p does not exceed; in parentheses where seeds are taken as given."""
    value = row[p]
    if value is None:
        return ""
    stars = "*" * sum(value <= level for level in LEVELS)
    return f"({stars})" if stars and row[sources] == FIXED_SEEDS else stars


def with_marks(rows: pl.DataFrame, p: str = "adjusted_p") -> pl.DataFrame:
    """The rows with `mark`, from the adjusted p in column `p` and `sources`."""
    marks = [mark(row, p) for row in rows.select(p, "sources").iter_rows(named=True)]
    return rows.with_columns(pl.Series("mark", marks, dtype=pl.String))
