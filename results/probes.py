"""Rows of probes as tables and plots take them: chosen, and named as people name what was probed."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from results.predictions import PROBE_COLUMNS
from results.selection import SelectionError, scale_text


def named_probes(rows: pl.DataFrame, where: Mapping[str, str]) -> pl.DataFrame:
    """The rows (with PROBE_COLUMNS) that a choice takes, with `model`, `regime` (and the seed drawn by) and `scale`.

    `where` chooses by what a probe has; a choice by anything else, such as a similarity, changes nothing.

    Raises:
        SelectionError: a value that no probe has.
    """
    seeded = pl.format("{} (seed {})", "init_regime", "seed")
    cut = pl.format("{}-{}l", "family", "layers")
    return _chosen(rows, where).with_columns(
        model=pl.when(pl.col("layers").is_null()).then("family").otherwise(cut),
        regime=pl.when(pl.col("seed").is_null()).then("init_regime").otherwise(seeded),
        scale=scale_text(),
    )


def _chosen(rows: pl.DataFrame, where: Mapping[str, str]) -> pl.DataFrame:
    for column, text in where.items():
        if column not in PROBE_COLUMNS or rows.is_empty():
            continue
        values = rows[column].cast(pl.String)
        matches = values.is_null() if text == "none" else values == _as_printed(rows.schema[column], text)
        if not matches.any():
            known = ", ".join(str(value) for value in rows[column].unique().drop_nulls().sort()) or "none"
            raise SelectionError(f"--where {column}={text}: no probe has it (there are: {known})")
        rows = rows.filter(matches)
    return rows


def _as_printed(dtype: Any, text: str) -> str:
    """A number as a column of them prints it: '20' chooses 20.0."""
    try:
        return str(float(text)) if dtype == pl.Float64 else text
    except ValueError:
        return text
