"""What a run shows at its end, and `densesweep tables` without names: the answer on a screen, and where the rest is."""

from collections.abc import Iterable, Iterator

from rich.console import Console

from orchestrator.program import command
from orchestrator.show import collected_rows, print_training_notes
from orchestrator.table_commands import one_table_command, table_commands
from results.collect import Collected
from results.layout import SweepRecord
from results.overview import Overview, overview
from results.rendering.overview import parts
from results.store import Store
from results.tables import applicable
from results.tables.table import TableOptions

_REPORT = "report.html"


def print_results(store: Store, record: SweepRecord, console: Console) -> None:
    """The overview, what else is to know of the trainings, and how to see more; holes are marked."""
    collected = collected_rows(store, record)
    print_overview(overview(collected, TableOptions()), store.uri, console)
    console.print()
    print_training_notes(collected.trials.iter_rows(named=True), console)
    console.print()
    print_lines(_rest(collected, store), console)


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Lines for people to copy from: none is broken."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_overview(found: Overview, uri: str, console: Console) -> None:
    """The overview alone."""
    for part in parts(found, lambda table: command("tables", uri, table)):
        console.print(part)
    if found.missing:
        print_lines([f"All that is missing: {command('tables', uri, 'missing')}"], console)


def print_table_list(collected: Collected, uri: str, console: Console) -> None:
    """Which tables there are, and the commands that print one and all of them."""
    names = applicable(collected.record)
    console.print(f"Tables: {', '.join(names)}", markup=False, highlight=False)
    one = f"One of them: {one_table_command(collected, uri, names[0])}"
    print_lines([one, *table_commands(collected, uri)], console)


def _rest(collected: Collected, store: Store) -> Iterator[str]:
    yield from table_commands(collected, store.uri)
    if store.exists(_REPORT):
        yield f"Tables and plots on one page: {store.uri.rstrip('/')}/{_REPORT}"
    yield f"Runs in the MLflow UI: {command('ui', store.uri)}"
