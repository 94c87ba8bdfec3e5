"""Tables as JSON: typed raw values, what each column is, formula, footnotes, holes, and the ids behind each row."""

import json
import math
from collections.abc import Mapping
from typing import Any

from results.origins import probe_ids, trial_ids
from results.rendering.holes import checked, footnotes
from results.tables.table import Column, Kind, Table

FORMAT = "densesweep.table/1"
_UNITS: Mapping[Kind, str] = {
    "text": "text",
    "count": "count",
    "score": "0 to 1",
    "points": "difference of scores from 0 to 1",
    "percent": "ratio",
    "p": "probability",
    "plain": "number",
    "range": "number",
    "interval": "number",
    "points_interval": "difference of scores from 0 to 1",
    "pair": "number",
    "share_pair": "0 to 1",
    "score_pair": "0 to 1",
}


def render(table: Table, *, allow_missing: bool = False) -> str:
    """The table as one JSON object; an absent value is null, and a row has all columns of the CSV file.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    checked(table, allow_missing=allow_missing)
    value = {
        "format": FORMAT,
        "name": table.name,
        "title": table.title,
        "formula": table.formula,
        "columns": [_column(column) for column in table.columns],
        "rows": [_row(table, number, row) for number, row in enumerate(table.rows.iter_rows(named=True), start=1)],
        "block": list(table.block),
        "rank": table.rank,
        "footnotes": list(footnotes(table)),
        "holes": list(table.holes),
    }
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _column(column: Column) -> dict[str, Any]:
    return {
        "key": column.key,
        "upper": column.upper,
        "header": column.header,
        "kind": column.kind,
        "unit": _UNITS[column.kind],
        "decimals": column.decimals,
        "marks": column.marks,
    }


def _row(table: Table, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    ids = {"trials": list(trial_ids(table.origin, row)), "probes": list(probe_ids(table.origin, row))}
    return {"row": number, "values": {key: _value(value) for key, value in row.items()}, "ids": ids}


def _value(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
