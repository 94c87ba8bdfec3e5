"""The tables: a registry of named builders, each from collected rows to a `Table`. A module here adds one."""

from collections.abc import Callable
from dataclasses import dataclass

from results.collect import Collected
from results.tables import fisher_check, gains, missing
from results.tables.table import Table, TableOptions
from search_spaces.catalogue.registry import Registry


@dataclass(frozen=True, kw_only=True)
class TableBuilder:
    """A table's name, what it shows, and the function that builds it."""

    name: str
    summary: str
    build: Callable[[Collected, TableOptions], Table]


TABLES = Registry(
    "table",
    [
        TableBuilder(name="gains", summary="scores and gains against a baseline", build=gains.build),
        TableBuilder(name="fisher_check", summary="what Fisher information called, who won", build=fisher_check.build),
        TableBuilder(name="missing", summary="what the sweep asked for and does not have", build=missing.build),
    ],
)
