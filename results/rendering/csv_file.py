"""Tables as CSV: every column of the rows, raw values (0 to 1), one header; an empty field is an absent value."""

from results.rendering.holes import checked
from results.tables.table import Table


def render(table: Table, *, allow_missing: bool = False) -> str:
    """The rows, so that `polars.read_csv` gives them back.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    return checked(table, allow_missing=allow_missing).rows.write_csv()
