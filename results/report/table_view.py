"""A table as the report's template shows it: cells with what they are sorted by, notes, and the CSV file."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from results.rendering import csv_file
from results.rendering.holes import footnotes
from results.rendering.values import is_text, shown_rows
from results.tables.table import Column, Table

_FILTERED_FROM = 16  # rows: fewer are seen at a glance


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A cell: `text` is None where the value is absent; `sort` is what it is sorted by, None likewise."""

    text: str | None
    sort: str | None
    mark: str | None
    is_text: bool


@dataclass(frozen=True, kw_only=True)
class RowView:
    """A row of cells."""

    cells: tuple[CellView, ...]
    begins_block: bool


@dataclass(frozen=True, kw_only=True)
class TableView:
    """All that the template shows of a table."""

    name: str
    title: str
    columns: tuple[Column, ...]
    is_text: tuple[bool, ...]
    rows: tuple[RowView, ...]
    notes: tuple[str, ...]
    has_marks: bool
    is_incomplete: bool
    has_filter: bool
    csv_base64: str


def table_view(table: Table) -> TableView:
    """The table with its holes as dashes, which its notes list."""
    return TableView(
        name=table.name,
        title=table.title,
        columns=table.columns,
        is_text=tuple(is_text(column) for column in table.columns),
        rows=tuple(_rows(table)),
        notes=footnotes(table),
        has_marks=table.rank is not None,
        is_incomplete=bool(table.holes),
        has_filter=table.rows.height >= _FILTERED_FROM,
        csv_base64=base64.b64encode(csv_file.render(table, allow_missing=True).encode()).decode(),
    )


def _rows(table: Table) -> Iterator[RowView]:
    for row, raw in zip(shown_rows(table), table.rows.iter_rows(named=True), strict=True):
        cells = (
            CellView(
                text=cell.text,
                sort=None if cell.text is None else _sorted_by(column, raw),
                mark=cell.mark,
                is_text=is_text(column),
            )
            for column, cell in zip(table.columns, row.cells, strict=True)
        )
        yield RowView(cells=tuple(cells), begins_block=row.begins_block)


def _sorted_by(column: Column, raw: Mapping[str, Any]) -> str:
    """The raw value: what is printed is rounded, and of a range it is the lower end."""
    value = raw[column.key]
    return str(value) if is_text(column) else repr(float(value))
