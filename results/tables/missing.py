"""Table `missing`: what was asked for and is not there, failed, came twice or is mixed, and what was left out."""

import polars as pl

from results.collect import Collected
from results.tables.parts import warning_notes
from results.tables.table import Column, Table, TableOptions

_KEYS = ("kind", "trial", "what", "reason", "trial_ids")
_SHOWN = _KEYS[:-1]


def build(collected: Collected, options: TableOptions) -> Table:
    """One row per missing trial, evaluation or probe, whatever `options` choose. The table itself has no holes.

    `kind` is 'missing', 'failed', 'duplicate', 'version-mixed', 'tier-mixed' or 'left out'.
    """
    missing = [
        ("failed" if item.is_failed else "missing", item.title, item.what, item.reason, item.trial_id or None)
        for item in collected.lacking
    ]
    found = [(item.kind, item.title, item.what, item.reason, item.trial_id) for item in collected.findings]
    left_out = [("left out", cell.title, "no such cell", cell.reason, None) for cell in collected.record.left_out]
    rows = pl.DataFrame([*missing, *found, *left_out], schema=dict.fromkeys(_KEYS, pl.String), orient="row")
    whole = () if missing else ("Nothing that the sweep asked for is missing.",)
    return Table(
        name="missing",
        title="What is missing",
        columns=tuple(Column(key=key, header=key) for key in _SHOWN),
        rows=rows,
        block=("kind",),
        notes=(*whole, *warning_notes(collected)),
    )
