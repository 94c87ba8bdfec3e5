"""Tables of a sweep by the choice of its user: one, or all that can be built, and why the others cannot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from results.collect import Collected
from results.schemas import SchemaError
from results.selection import OF_RESULT, NothingChosenError, SelectionError
from results.tables import TABLES, applicable
from results.tables.table import Table, TableOptions

_WHATEVER = ("missing", "fisher_published")  # tables that say what they say whatever is chosen


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
            tables[name] = build_one(name, collected, options)
        except SelectionError as error:
            refused[name] = str(error)
    return BuiltTables(tables=tables, refused=refused)


def build_one(name: str, collected: Collected, options: TableOptions) -> Table:
    """A table that applies; its notes say which choices of similarity or kind it does not follow.

    Raises:
        SelectionError: the choice cannot be made, mixes what is not comparable, or leaves no row; or rows that it
            alone reads are damaged.
    """
    try:
        table = TABLES[name].build(collected, options)
    except SchemaError as error:
        raise SelectionError(str(error)) from error
    chosen = {column: text for column, text in options.where.items() if column in OF_RESULT}
    if chosen and table.rows.is_empty() and name not in _WHATEVER:
        named = " ".join(f"{column}={text}" for column, text in chosen.items())
        raise NothingChosenError(f"--where {named}: no row of this table has it")
    return replace(table, notes=(*table.notes, *_not_followed(table, options.where)))


def _not_followed(table: Table, where: Mapping[str, str]) -> Iterator[str]:
    if table.name in _WHATEVER and where:
        yield "It lists everything, whatever --where chooses."
        return
    if similarity := where.get("similarity"):
        rows = table.rows
        if "similarity" not in rows.columns or rows.filter(pl.col("similarity").ne_missing(similarity)).height:
            yield f"The choice similarity={similarity} picks no rows of this table."
