"""Tables as GitHub Markdown."""

import re

from results.rendering.holes import checked, footnotes
from results.rendering.values import Cell, is_text, shown_rows
from results.tables.table import Table

DASH = "–"
# An underscore inside a word means nothing in GitHub Markdown, so that names stay readable as plain text.
_SPECIAL = re.compile(r"[\\|*`<>\[\]]|(?<!\w)_|_(?!\w)")


def render(table: Table, *, allow_missing: bool = False) -> str:
    """The table under its title, notes below; the best of each block bold, the second in italics.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    checked(table, allow_missing=allow_missing)
    rows = [[_cell(cell) for cell in row.cells] for row in shown_rows(table)]
    headers = [escape(column.header) for column in table.columns]
    widths = [max(3, *(len(line[i]) for line in [headers, *rows])) for i in range(len(headers))]
    left = [is_text(column) for column in table.columns]
    rule = [
        ":" + "-" * (width - 1) if to_left else "-" * (width - 1) + ":"
        for width, to_left in zip(widths, left, strict=True)
    ]
    lines = [_line(cells, widths, left) for cells in (headers, rule, *rows)]
    legend = ["Best of each block in bold, second in italics."] if table.rank else []
    notes = [f"- {escape(note)}" for note in (*legend, *footnotes(table))]
    return "\n".join([f"### {escape(table.title)}", "", *lines, *([""] if notes else []), *notes]) + "\n"


def escape(text: str) -> str:
    """Text that shows as itself, on one line."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", " ".join(text.split()))


def _cell(cell: Cell) -> str:
    if cell.text is None:
        return DASH
    text = escape(cell.text)
    return {"best": f"**{text}**", "second": f"*{text}*"}.get(cell.mark or "", text)


def _line(cells: list[str], widths: list[int], left: list[bool]) -> str:
    padded = (c.ljust(w) if to_left else c.rjust(w) for c, w, to_left in zip(cells, widths, left, strict=True))
    return f"| {' | '.join(padded)} |"
