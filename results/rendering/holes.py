"""Tables with holes: refused, or shown with dashes and a footnote that says what is missing."""

from results.tables.table import Table, TableHasHolesError

_LISTED = 20


def checked(table: Table, *, allow_missing: bool) -> Table:
    """`table`, if it is whole or holes are allowed.

    Raises:
        TableHasHolesError: listing what is missing.
    """
    if table.holes and not allow_missing:
        raise TableHasHolesError(table)
    return table


def footnotes(table: Table) -> tuple[str, ...]:
    """The table's notes, then what its dashes stand for."""
    if not table.holes:
        return table.notes
    listed = "; ".join(table.holes[:_LISTED])
    rest = f"; and {len(table.holes) - _LISTED} more" if len(table.holes) > _LISTED else ""
    return (*table.notes, f"INCOMPLETE. Dashes are missing values: {listed}{rest}.")
