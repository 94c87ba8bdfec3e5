"""A part of the overview: a small grid of texts with a title, what to know of it, and the table that has the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINES = 16


@dataclass(frozen=True, kw_only=True)
class Section:
    """`lines` under `headers`; `names` are the places of what is set to the left, `best` that of each line's bold cell.

    `table` is what it is made from, with its `holes`; `left_away` counts the lines for which there was no room.
    """

    title: str
    headers: tuple[str, ...]
    names: tuple[int, ...]
    lines: tuple[tuple[str, ...], ...]
    table: str
    best: tuple[int | None, ...] = ()
    notes: tuple[str, ...] = ()
    left_away: int = 0
    holes: tuple[str, ...] = ()


def aligned(cells: Sequence[tuple[str, str]]) -> list[str]:
    """Numbers with their marks as texts of which the numbers end at one place, when they are set to the right."""
    width = max((len(mark) for _, mark in cells), default=0)
    return [f"{number}{mark:<{width}}" for number, mark in cells]
