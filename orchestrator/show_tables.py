"""What `densesweep tables` prints or writes: tables by name, or all that say something of their source."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from orchestrator.outputs import output_folder, write_output
from orchestrator.show import source_rows
from orchestrator.show_overview import print_overview, print_table_list
from orchestrator.terminal import plain_console
from results.collect import Collected
from results.overview import overview
from results.references import load_references
from results.refusals import refusal
from results.rendering import export
from results.selection import NothingChosenError, SelectionError, choice_problems
from results.sources import Source
from results.statistics.paired_tests import PairedTest
from results.statistics.ranks import PostHoc
from results.tables import TABLES, WITH_REFERENCES, applicable
from results.tables.built import build_one
from results.tables.table import Table, TableHasHolesError, TableOptions
from search_spaces.problems import InputError, Problem, unknown_name


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """Which tables (none: all), in which format, to standard output or into a folder; nothing of it: the overview."""

    names: tuple[str, ...]
    output_format: str | None
    output: Path | None
    allow_missing: bool
    options: TableOptions

    @property
    def is_overview(self) -> bool:
        """Whether nobody asked for tables; external numbers stand in tables alone."""
        return not (self.names or self.output_format or self.output or self.options.references)


def write_tables(source: Source, request: TablesRequest) -> None:
    """Print or write the tables asked for; where all are, those that the choice leaves nothing of say so.

    Raises:
        InputError: no such table, a choice that cannot be made, or a table with holes that are not allowed.
    """
    collected = chosen_rows(source, request.options.where)
    names = request.names or applicable(source.record)
    if faults := [*_unfit(names, collected), *_unfit_options(names, request)]:
        raise InputError(faults)
    if request.is_overview:
        _write_overview(source, collected, request)
        return
    for warning in collected.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    refused: dict[str, list[str]] = {}
    nothing: dict[str, str] = {}
    holes: dict[str, tuple[str, ...]] = {}
    for name in names:
        try:
            table = build_one(name, collected, request.options)
            files = export(table, request.output_format or "md", allow_missing=request.allow_missing)
        except NothingChosenError as error:
            nothing[name] = str(error)
        except SelectionError as error:
            refused.setdefault(str(error), []).append(name)
        except TableHasHolesError as error:
            holes[name] = error.holes
        else:
            _write(files, request.output)
    _tell(source, refused, nothing, holes, collected, is_all=not request.names)


def _write_overview(source: Source, collected: Collected, request: TablesRequest) -> None:
    """The answer at a glance, and which tables there are."""
    found = overview(collected, request.options)
    allowed = found if request.allow_missing else found.whole
    console = plain_console()
    print_overview(replace(allowed, refused={}, nothing={}), source.uri, console)
    console.print()
    print_table_list(collected, source.uri, console)
    refused: dict[str, list[str]] = {}
    for name, reason in found.refused.items():
        refused.setdefault(reason, []).append(name)
    holes = {} if request.allow_missing else found.holes
    _tell(source, refused, found.nothing, holes, collected, is_all=True)


def _tell(
    source: Source,
    refused: dict[str, list[str]],
    nothing: Mapping[str, str],
    holes: Mapping[str, Sequence[str]],
    collected: Collected,
    *,
    is_all: bool,
) -> None:
    """Say of which tables there is nothing, and raise InputError where one was refused."""
    for name, reason in nothing.items():
        if is_all:
            print(f"note: nothing in table '{name}': {reason}", file=sys.stderr)
        else:
            refused.setdefault(reason, []).append(name)
    faults = [Problem(where=source.uri, key=", ".join(names), message=text) for text, names in refused.items()]
    if holes:
        faults.append(Problem(where=source.uri, key="holes", message=refusal(holes, collected)))
    if faults:
        raise InputError(faults)


def chosen_rows(source: Source, where: Mapping[str, str]) -> Collected:
    """The rows of a source, of which the choice is known to leave something.

    Raises:
        InputError: they are of another version of this program, or nothing has what is chosen.
    """
    collected = source_rows(source)
    every = (collected.expected, collected.expected_sts, collected.expected_answers)
    if problems := choice_problems(every, where):
        raise InputError(Problem(where=source.uri, key="", message=problem) for problem in problems)
    return collected


def build_table(name: str, collected: Collected, options: TableOptions) -> Table:
    """A table by its name.

    Raises:
        InputError: no such table, or one that says nothing of this sweep.
        SelectionError: a choice that cannot be made.
    """
    if faults := list(_unfit([name], collected)):
        raise InputError(faults)
    return build_one(name, collected, options)


def _unfit(names: Iterable[str], collected: Collected) -> Iterator[Problem]:
    """Every name that is none, or of a table that says nothing of this sweep."""
    shown = applicable(collected.record)
    for name in names:
        if name not in TABLES:
            yield Problem(where="tables", key="", message=unknown_name("table", name, list(TABLES)))
        elif name not in shown:
            what = f"table '{name}' says nothing of this sweep, which evaluates or probes nothing for it"
            yield Problem(where="tables", key="", message=f"{what} (show {', '.join(shown)})")


def _unfit_options(names: Sequence[str], request: TablesRequest) -> Iterator[Problem]:
    if request.output_format == "csv" and request.output is None and len(names) > 1:
        message = f"several tables are no one CSV file: name one ({', '.join(names)}), or a folder for them with -o"
        yield Problem(where="tables", key="--format csv", message=message)
    if request.options.references and not set(names) & set(WITH_REFERENCES):
        message = f"no table that is asked for shows external numbers (these do: {', '.join(WITH_REFERENCES)})"
        yield Problem(where="tables", key="--reference", message=message)


def table_options(
    where: Sequence[str] | None,
    *,
    pool: bool,
    baseline: str,
    reference: Sequence[str] | None,
    correction: Literal["holm", "bh"] = "holm",
    paired_test: PairedTest = "t",
    post_hoc: PostHoc = "holm",
) -> TableOptions:
    """What the options of commands ask of tables. Raises InputError where a choice or a file of references is none."""
    return TableOptions(
        where=choices(tuple(where or ())),
        pool=pool,
        baseline=baseline,
        correction="holm" if correction == "holm" else "benjamini-hochberg",
        paired_test=paired_test,
        post_hoc=post_hoc,
        references=load_references(reference or ()),
    )


def choices(where: tuple[str, ...]) -> dict[str, str]:
    """Choices of `--where` by column. Raises InputError with all that are no choice, or contradict another."""
    chosen: dict[str, str] = {}
    problems = []
    for text in where:
        column, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not column or not value:
            problems.append(f"'{text}' is not a choice (write COLUMN=VALUE)")
        elif chosen.setdefault(column, value) != value:
            problems.append(f"'{text}' and '{column}={chosen[column]}' exclude each other: a table is of one value")
    if problems:
        raise InputError(Problem(where="--where", key="", message=problem) for problem in problems)
    return chosen


def _write(files: Mapping[str, str], output: Path | None) -> None:
    if output is None:
        print(next(iter(files.values())).rstrip() + "\n")
        return
    output_folder(output)
    for name, text in files.items():
        write_output(output / name, text.encode())
        print(output / name)
