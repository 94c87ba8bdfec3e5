"""The commands that show all tables of a sweep: with the choices that its rows need, so that each of them works."""

from collections.abc import Iterator, Mapping

import polars as pl

from orchestrator.program import command
from results.collect import Collected
from results.selection import select
from results.tables.table import TableOptions
from results.whole_choices import whole_choices
from search_spaces.catalogue.similarities import SIMILARITIES

_WHOLE = ("--format", "md")  # without, only what matters most is shown
_MOST = 8  # lines: a grid of many settings has too many choices to list


def table_commands(collected: Collected, uri: str) -> Iterator[str]:
    """Lines for people, each with a command that can be copied."""
    every = whole_choices(collected)
    for where in every[:_MOST]:
        of = f" of {', '.join(f'{column} {value}' for column, value in where.items())}" if where else ""
        yield f"All tables{of}: {command('tables', uri, *_options(collected, where), *_WHOLE)}"
    if len(every) > _MOST:
        yield f"and {len(every) - _MOST} more choices of {', '.join(every[0])}"


def one_table_command(collected: Collected, uri: str, name: str) -> str:
    """The command that shows one table, of the first of the choices."""
    return command("tables", uri, name, *_options(collected, whole_choices(collected)[0]))


def _options(collected: Collected, where: Mapping[str, str]) -> list[str]:
    chosen = [part for column, value in where.items() for part in ("--where", f"{column}={value}")]
    return [*chosen, *_baseline(collected, where), *(["--allow-missing"] if collected.lacking else [])]


def _baseline(collected: Collected, where: Mapping[str, str]) -> list[str]:
    """Another baseline where nothing of the choice is trained with the usual one."""
    trained = collected.expected.filter(pl.col("kind") == "train")
    known = set(select(trained, where)["similarity"]) if trained.height else set()
    if not known or TableOptions().baseline in known:
        return []
    return ["--baseline", next(name for name in SIMILARITIES if name in known)]
