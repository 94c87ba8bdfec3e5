"""Tables on a terminal, through rich: where one is too wide for it, each block stands under a line that names it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.box import HORIZONTALS
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from results.rendering.holes import checked, footnotes
from results.rendering.values import Cell, Row, is_text, shown_rows
from results.tables.table import Column, Table

_STYLES = {"best": "bold", "second": "underline"}
_WIDER_THAN_ANY = 10_000


def render(table: Table, *, allow_missing: bool = False) -> Group:
    """A rich renderable, without details; the best of each block bold, the second underlined.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    table = checked(table, allow_missing=allow_missing).without_details()
    legend = ["Best of each block in bold, second underlined."] if table.rank else []
    return Group(_Fitted(table=table), *(Text(note, style="dim") for note in (*legend, *footnotes(table))))


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """A table in the width that there is."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        rows = list(shown_rows(self.table))
        whole = _grid(self.table.columns, rows, title=self.table.title)
        of_block = [place for place, column in enumerate(self.table.columns) if column.key in self.table.block]
        width = Measurement.get(console, options.update(width=_WIDER_THAN_ANY), whole).maximum
        if width <= options.max_width or not of_block:
            yield whole
            return
        yield Text(self.table.title, style="bold")
        columns = [column for place, column in enumerate(self.table.columns) if place not in of_block]
        for block in _blocks(rows):
            yield Text(" ".join(block[0].cells[place].text or "–" for place in of_block), style="bold")
            yield _grid(columns, [_without(row, of_block) for row in block], title=None)


def _blocks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    found: list[Row] = []
    for row in rows:
        if row.begins_block:
            yield found
            found = []
        found.append(row)
    if found:
        yield found


def _without(row: Row, places: Sequence[int]) -> Row:
    left = tuple(cell for place, cell in enumerate(row.cells) if place not in places)
    return replace(row, cells=left, begins_block=False)


def _grid(columns: Sequence[Column], rows: Sequence[Row], *, title: str | None) -> RichTable:
    grid = RichTable(
        title=title,
        title_justify="left",
        title_style="bold",
        box=HORIZONTALS,  # no lines between columns, which have no room to spare
        pad_edge=False,
        collapse_padding=True,
    )
    for column in columns:
        # Folded where there is little room: a cut-off name could be another's. A number is whole, an interval in two.
        is_whole = not is_text(column) and column.upper is None
        grid.add_column(
            Text(column.header),
            justify="left" if is_text(column) else "right",
            overflow="fold",
            no_wrap=is_whole,  # the last to become narrow
        )
    for row in rows:
        if row.begins_block:
            grid.add_section()
        grid.add_row(*(_cell(cell) for cell in row.cells))
    return grid


def _cell(cell: Cell) -> Text:
    # Folded if it must be: what does not wrap would be cut off.
    return Text("–" if cell.text is None else cell.text, style=_STYLES.get(cell.mark or "", ""), no_wrap=False)
