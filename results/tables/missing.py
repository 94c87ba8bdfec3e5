"""Table `missing`: what the sweep asked for and its folder does not have, and what was left out on purpose."""

import polars as pl

from results.collect import Collected
from results.tables.parts import warning_notes
from results.tables.table import Column, Table, TableOptions

_KEYS = ("trial", "what", "reason")


def build(collected: Collected, options: TableOptions) -> Table:
    """One row per missing trial, evaluation or probe, whatever `options` choose. The table itself has no holes."""
    missing = [(item.title, item.what, item.reason) for item in collected.missing]
    left_out = [(cell.title, "left out of the sweep", cell.reason) for cell in collected.record.left_out]
    rows = pl.DataFrame([*missing, *left_out], schema=dict.fromkeys(_KEYS, pl.String), orient="row")
    whole = () if missing else ("Nothing that the sweep asked for is missing.",)
    return Table(
        name="missing",
        title="What is missing",
        columns=tuple(Column(key=key, header=key) for key in _KEYS),
        rows=rows,
        notes=(*whole, *warning_notes(collected)),
    )
