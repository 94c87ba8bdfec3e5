"""All tables of a sweep at once: those that can be built, and why the others cannot."""

from collections.abc import Mapping
from dataclasses import dataclass

from results.collect import Collected
from results.selection import SelectionError
from results.tables import TABLES, applicable
from results.tables.table import Table, TableOptions


@dataclass(frozen=True, kw_only=True)
class BuiltTables:
    """Tables by name, in their order; `refused` says of others that apply why there is no one table of them.

    With several training data sets or scales, for example, `--where` makes a table of each.
    """

    tables: Mapping[str, Table]
    refused: Mapping[str, str]


def build_tables(collected: Collected, options: TableOptions) -> BuiltTables:
    """Every table that says something of the sweep."""
    tables: dict[str, Table] = {}
    refused: dict[str, str] = {}
    for name in applicable(collected.record):
        try:
            tables[name] = TABLES[name].build(collected, options)
        except SelectionError as error:
            refused[name] = str(error)
    return BuiltTables(tables=tables, refused=refused)
