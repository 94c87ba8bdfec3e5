"""The overview of a sweep on a terminal, in about a screen."""

from collections.abc import Callable, Iterator

from rich.box import HORIZONTALS
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from results.overview import Overview
from results.overview_section import Section


def parts(overview: Overview, command: Callable[..., str]) -> Iterator[RenderableType]:
    """What is printed, one after the other; `command` makes a command line of its arguments, for one table."""
    yield Text(overview.summary, style="bold")
    for section in overview.sections:
        yield Text("")
        yield Text(section.title, style="bold")
        yield _grid(section)
        yield from (Text(note, style="dim") for note in section.notes)
        if section.left_away:
            yield Text(f"and {section.left_away} more lines: {command(section.table)}")
    for name, reason in (*overview.refused.items(), *overview.nothing.items()):
        yield Text(f"\nTable '{name}' is not shown: {reason}")
    yield from (Text(note) for note in overview.notes)
    if overview.missing:
        yield Text("\nMissing", style="bold")
        yield from (Text(f"- {line}") for line in overview.missing)


def _grid(section: Section) -> RichTable:
    grid = RichTable(box=HORIZONTALS, pad_edge=False, collapse_padding=True)
    for place, header in enumerate(section.headers):
        grid.add_column(Text(header), justify="left" if place in section.names else "right", overflow="fold")
    best = section.best or (None,) * len(section.lines)
    for line, of_line in zip(section.lines, best, strict=True):
        grid.add_row(*(Text(text, style="bold" if at == of_line else "") for at, text in enumerate(line)))
    return grid
