"""How raw values print: one text per cell, None where a value is absent."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from results.tables.table import Column, Kind, Table

Mark = Literal["best", "second"]
_MARKS: Mapping[int, Mark] = {1: "best", 2: "second"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell's text (None: absent), its mark among the rows of its block, and the stars that its column has of it."""

    text: str | None
    mark: Mark | None = None
    stars: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row's cells; `begins_block` where it differs from the row before in one of the table's block columns."""

    cells: tuple[Cell, ...]
    begins_block: bool


def shown_rows(table: Table) -> Iterator[Row]:
    """The table's rows as they are shown."""
    before: Mapping[str, Any] | None = None
    for row in table.rows.iter_rows(named=True):
        begins = before is not None and any(row[key] != before[key] for key in table.block)
        mark = _MARKS.get(row[table.rank]) if table.rank and row[table.rank] is not None else None
        cells = (
            Cell(
                text=shown_text(column, row),
                mark=mark if column.ranked else None,
                stars=(row[column.marks] or "") if column.marks else "",
            )
            for column in table.columns
        )
        yield Row(cells=tuple(cells), begins_block=begins)
        before = row


def is_text(column: Column) -> bool:
    """Whether a column is set to the left."""
    return column.kind == "text"


def shown_text(column: Column, row: Mapping[str, Any]) -> str | None:
    """The text of a column in a row of a table; None where its value is absent."""
    value = row[column.key]
    upper = row[column.upper] if column.upper else value
    if _is_absent(value) or _is_absent(upper):
        return None
    return _FORMATS[column.kind](value, upper, column.decimals)


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _signed(value: float, decimals: int) -> str:
    """With its sign, but for what rounds to zero: '-0.00' would claim a direction."""
    return f"{value:+.{decimals}f}" if round(value, decimals) else _plain(0.0, decimals)


def _plain(value: float, decimals: int) -> str:
    return f"{value if round(value, decimals) else 0.0:.{decimals}f}"


def _range(low: float, high: float, decimals: int) -> str:
    first, last = _plain(low, decimals), _plain(high, decimals)
    return first if first == last else f"{first} to {last}"


def _p(value: float, _: float, decimals: int) -> str:
    smallest = 10**-decimals
    return f"<{smallest:.{decimals}f}" if value < smallest else f"{value:.{decimals}f}"


_FORMATS: Mapping[Kind, Callable[[Any, Any, int], str]] = {
    "text": lambda value, _, __: str(value),
    "count": lambda value, _, __: f"{value:d}",
    "score": lambda value, _, decimals: _plain(value * 100, decimals),
    "points": lambda value, _, decimals: _signed(value * 100, decimals),
    "percent": lambda value, _, decimals: _signed(value * 100, decimals),
    "p": _p,
    "plain": lambda value, _, decimals: _plain(value, decimals),
    "range": _range,
    "pair": lambda first, second, decimals: f"{_plain(first, decimals)} / {_plain(second, decimals)}",
    "share_pair": lambda first, second, decimals: f"{_plain(first * 100, decimals)} / {_plain(second * 100, decimals)}",
    "score_pair": lambda first, second, decimals: f"{_plain(first * 100, decimals)} / {_plain(second * 100, decimals)}",
    "interval": lambda low, high, decimals: f"[{_plain(low, decimals)}, {_plain(high, decimals)}]",
    "points_interval": lambda low, high, decimals: f"[{_signed(low * 100, decimals)}, {_signed(high * 100, decimals)}]",
}
