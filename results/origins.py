"""The identities that a row of a table is made from, as its origin declares them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from results.tables.table import Origin

_BETWEEN = re.compile(r"[;\s]+")


def trial_ids(origin: Origin, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The trials, each once."""
    return _ids(origin.trials, row)


def probe_ids(origin: Origin, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The probes, each once."""
    return _ids(origin.probes, row)


def _ids(columns: Sequence[str], row: Mapping[str, Any]) -> tuple[str, ...]:
    found = (identity for column in columns for identity in _BETWEEN.split(row[column] or "") if identity)
    return tuple(dict.fromkeys(found))
