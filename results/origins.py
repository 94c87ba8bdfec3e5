"""The identities that a row of a table is made from, as its origin declares them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results.tables.table import Origin

_BETWEEN = re.compile(r"[;\s]+")


def trial_ids(origin: Origin, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The trials, each once."""
    return tuple(identity for _, identity in ids_by_column(origin.trials, row))


def probe_ids(origin: Origin, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The probes, each once."""
    return tuple(identity for _, identity in ids_by_column(origin.probes, row))


def ids_by_column(columns: Sequence[str], row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(column, identity), each identity once, under the first column that has it."""
    seen: set[str] = set()
    for column in columns:
        for identity in _BETWEEN.split(row.get(column) or ""):
            if identity and identity not in seen:
                seen.add(identity)
                yield column, identity
