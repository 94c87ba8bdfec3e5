"""What a plot is: rows taken from a sweep, and a pure function from rows to a figure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from results.collect import Collected
from results.schemas import SchemaError
from results.selection import SelectionError
from results.tables.built import BuiltTables
from results.tables.table import Table, TableOptions

MOST_FIGURES = 24
"""Of one plot, where not all are asked for: those of the first models of a sweep that has more."""


class NothingToDrawError(ValueError):
    """A plot of which the sweep has no rows: why, in one line for people."""


@dataclass(frozen=True, kw_only=True)
class PlotSource:
    """What plots take their rows from."""

    collected: Collected
    built: BuiltTables
    options: TableOptions

    def table(self, name: str) -> Table:
        """A table of the sweep.

        Raises:
            NothingToDrawError: there is none, with the reason.
        """
        if name in self.built.tables:
            return self.built.tables[name]
        reason = self.built.refused.get(name, "this sweep has no such table")
        raise NothingToDrawError(f"it is drawn from table '{name}', and {reason}")


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot's name, its title, how to read it, and how it is made.

    Attributes:
        name: of its files.
        title: for people.
        reading: one or two sentences on what is drawn.
        rows: from a sweep to the rows that are drawn; raises NothingToDrawError.
        by: columns of the rows: each of their values has a figure of its own.
        draw: from those rows and a title to a figure. Pure.
        holes: what should be drawn and is not there, a line each, as tables list it.
    """

    name: str
    title: str
    reading: str
    rows: Callable[[PlotSource], pl.DataFrame]
    by: tuple[str, ...]
    draw: Callable[[pl.DataFrame, str], Figure]
    holes: Callable[[PlotSource], tuple[str, ...]]


def holes_of(*tables: str) -> Callable[[PlotSource], tuple[str, ...]]:
    """The holes of a plot that is drawn from these tables: theirs."""

    def found(source: PlotSource) -> tuple[str, ...]:
        built = (source.built.tables[name] for name in tables if name in source.built.tables)
        return tuple(dict.fromkeys(hole for table in built for hole in table.holes))

    return found


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure that is to be drawn: `label` says of what part of the sweep, `file_name` has no ending."""

    label: str
    file_name: str
    draw: Callable[[], Figure]


def drawings(plot: Plot, source: PlotSource) -> list[Drawing]:
    """The plot's figures, not yet drawn, one for each value of `plot.by`; each says how much is missing.

    Raises:
        NothingToDrawError: there are none.
        SelectionError: the rows cannot be chosen so, or are damaged.
    """
    try:
        rows = plot.rows(source)
    except SchemaError as error:
        raise SelectionError(str(error)) from error
    if rows.is_empty():
        raise NothingToDrawError("the sweep has no row of it yet")
    parts = list(_parts(rows, plot.by))
    names = _file_names([" ".join([plot.name, label]) for label, _ in parts])
    missing = f" ({number} missing)" if (number := len(plot.holes(source))) else ""
    return [
        Drawing(label=label, file_name=name, draw=_Draw(plot=plot, rows=part, label=label, missing=missing))
        for name, (label, part) in zip(names, parts, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class _Draw:
    plot: Plot
    rows: pl.DataFrame
    label: str
    missing: str

    def __call__(self) -> Figure:
        title = f"{self.plot.title}: {self.label}" if self.label else self.plot.title
        return self.plot.draw(self.rows, title + self.missing)


def _parts(rows: pl.DataFrame, by: Sequence[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    if not by:
        yield "", rows
        return
    told = [name for name in by if rows[name].n_unique() > 1 or name in ("group", "model", "init_regime")]
    for key, part in rows.group_by(list(by), maintain_order=True):
        yield " ".join(str(value) for name, value in zip(by, key, strict=True) if name in told), part


def _file_names(names: Sequence[str]) -> list[str]:
    """Names that every file system takes, all different though letters are replaced."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", name).strip("_")[:120]
        numbered = (plain, *(f"{plain}-{number}" for number in range(2, len(names) + 1)))
        taken = {other.lower() for other in found}
        found.append(next(free for free in numbered if free.lower() not in taken))
    return found


def line_name(row: Mapping[str, Any], *, with_scale: bool) -> str:
    """A model and init regime in one line."""
    return f"{row['model']} {row['init_regime']}" + (f" {row['scale']}" if with_scale else "")
