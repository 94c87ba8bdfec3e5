"""Tables on a terminal, through rich."""

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from results.rendering.holes import checked, footnotes
from results.rendering.values import Cell, is_text, shown_rows
from results.tables.table import Table

_STYLES = {"best": "bold", "second": "underline"}


def render(table: Table, *, allow_missing: bool = False) -> Group:
    """A rich renderable, without details; the best of each block bold, the second underlined.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    table = checked(table, allow_missing=allow_missing).without_details()
    grid = RichTable(title=table.title, title_justify="left", title_style="bold")
    for column in table.columns:
        # Folded where there is little room: a cut-off name could be another's.
        grid.add_column(Text(column.header), justify="left" if is_text(column) else "right", overflow="fold")
    for row in shown_rows(table):
        if row.begins_block:
            grid.add_section()
        grid.add_row(*(_cell(cell) for cell in row.cells))
    legend = ["Best of each block in bold, second underlined."] if table.rank else []
    return Group(grid, *(Text(note, style="dim") for note in (*legend, *footnotes(table))))


def _cell(cell: Cell) -> Text:
    return Text("–" if cell.text is None else cell.text, style=_STYLES.get(cell.mark or "", ""))
