"""The commands `densesweep data`: what data sets there are, what of them is here, and whether it is whole.

Imports neither torch nor ray nor mlflow.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.data_check import Checked, checked, not_here
from search_spaces.catalogue.data_sets import DATA_SETS, PARTS, DataSet, default_groups
from search_spaces.expand import named_data
from search_spaces.load import load_sweep
from search_spaces.problems import InputError, Problem, unknown_name
from trainers import data_sets
from trainers.data_sets.availability import Availability, availability
from trainers.data_sets.hub_files import is_hub

_UNITS = ("B", "kB", "MB", "GB", "TB")


def list_data(arguments: Sequence[str], *, as_json: bool, console: Console) -> None:
    """Each data set with its groups, its size, and what of it is on this machine (default: the whole catalogue)."""
    entries = entries_of(arguments) or list(DATA_SETS.values())
    rows = [_listed(entry, availability(entry)) for entry in entries]
    if as_json:
        _print_json(rows)
        return
    shown = [
        {**row, "groups": ", ".join(row["groups"]), "here": size(row["here"]), "about": size(row["about"])}
        for row in rows
    ]
    _print_table(shown, ("name", "groups", "state", "here", "about", "documents", "queries", "licence"), console)
    absent = [entry for entry, row in zip(entries, rows, strict=True) if row["state"] == "missing"]
    for entry in absent:
        if not is_hub(entry):
            lacking = "; ".join(availability(entry).lacking)
            console.print(f"{entry.name}: {lacking}", markup=False, highlight=False, soft_wrap=True)
    missing = [entry for entry in absent if is_hub(entry)]
    if missing:
        # A corpus that several sets share is there once.
        known = {(entry.corpus_source or entry.source, entry.config): entry.size_bytes or 0 for entry in missing}
        of_known = f"about {size(sum(known.values()))} of those whose size is known"
        told = f"{len(missing)} {'is' if len(missing) == 1 else 'are'} missing, {of_known}"
        console.print(f"{told}: `densesweep data fetch NAME` fetches one.", highlight=False, soft_wrap=True)


def describe_data(arguments: Sequence[str], *, as_json: bool, console: Console) -> None:
    """All that the catalogue, or the sweep file, says of data sets."""
    entries = _required(arguments)
    if as_json:
        _print_json([entry.model_dump(mode="json") | {"state": availability(entry).state} for entry in entries])
        return
    for entry in entries:
        found = availability(entry)
        console.print(f"[bold]{entry.name}[/bold]: {found.state}", highlight=False)
        for key, value in _described(entry).items():
            console.print(f"  {key}: {value}", markup=False, highlight=False, soft_wrap=True)
        for lacking in found.lacking:
            console.print(f"  lacking: {lacking}", markup=False, highlight=False, soft_wrap=True)


def check_data(arguments: Sequence[str], *, with_figures: bool, as_json: bool, console: Console) -> int:
    """Read data sets whole and check them (default: all of the catalogue that are here). 1 where one is not right."""
    entries = entries_of(arguments) or [e for e in DATA_SETS.values() if availability(e).state != "missing"]
    found = [not_here(entry) or checked(entry, with_figures=with_figures) for entry in entries]
    if as_json:
        _print_json([row.as_row() for row in found])
    else:
        _print_checked(found, console)
    return 0 if all(row.verdict in ("right", "odd") for row in found) else 1


def fetch_data(arguments: Sequence[str], *, as_json: bool, console: Console) -> None:
    """Fetch what is missing of data sets and build it, so that nothing of them needs the hub any more.

    Raises:
        InputError: what could not be had or is not right; all the others are there.
    """
    problems: list[Problem] = []
    rows = []
    for entry in _required(arguments):
        before = availability(entry).state
        try:
            collection = data_sets.load(entry)
        except InputError as error:
            problems += error.problems
            continue
        rows.append({"name": entry.name, "before": before, "documents": collection.corpus.num_rows})
        if not as_json:
            was = "was there" if before == "built" else "is there now"
            console.print(f"{entry.name}: {was}, {collection.corpus.num_rows:,} documents", highlight=False)
    if as_json:
        _print_json(rows)
    if problems:
        raise InputError(problems)


def entries_of(arguments: Sequence[str]) -> list[DataSet]:
    """The data sets that arguments name: a name, all parts of one, a default group, `path:FOLDER` or a sweep file.

    Raises:
        InputError: an argument is none of these, or a sweep file has faults.
    """
    found: dict[str, DataSet] = {}
    problems: list[Problem] = []
    for argument in arguments:
        try:
            found |= {entry.name: entry for entry in _entries_of(argument)}
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return list(found.values())


def _required(arguments: Sequence[str]) -> list[DataSet]:
    if not arguments:
        message = "name data sets, a default group, or a sweep file (`densesweep data list` shows the catalogue)"
        raise InputError([Problem(where="data", key="", message=message)])
    return entries_of(arguments)


def _entries_of(argument: str) -> Iterable[DataSet]:
    groups = default_groups()
    if argument in DATA_SETS:
        return [DATA_SETS[argument]]
    if names := PARTS.get(argument) or groups.get(argument):
        return [DATA_SETS[name] for name in names]
    if argument.startswith("path:"):
        return [folder_entry(argument)]
    if Path(argument).suffix in (".yaml", ".yml"):
        return dict.fromkeys(data.entry for data in named_data(load_sweep(Path(argument))))
    if Path(argument).is_dir():
        raise InputError([Problem(where="data", key="", message=f"'{argument}' is a folder: write path:{argument}")])
    known = unknown_name("data set, a default group or a sweep file", argument, [*DATA_SETS, *PARTS, *groups])
    raise InputError([Problem(where="data", key="", message=known)])


def folder_entry(argument: str) -> DataSet:
    """The data set in a folder of BEIR's layout, named as `path:FOLDER`. Raises InputError where that is no path."""
    try:
        folder = Path(argument.removeprefix("path:")).expanduser().resolve()
        folder.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL byte, ~ of nobody
        message = f"cannot be a path ({getattr(error, 'strerror', None) or error})"
        raise InputError([Problem(where="data", key=argument[:80], message=message)]) from error
    if argument == "path:" or not folder.name:
        raise InputError([Problem(where="data", key=argument, message="names no folder (write path:FOLDER)")])
    return DataSet(name=folder.name.lower(), source=f"path:{folder}")


def _listed(entry: DataSet, found: Availability) -> dict[str, Any]:
    counts = entry.counts
    tested = [split for split in counts.splits if split.name == entry.test_split] if counts else []
    return {
        "name": entry.name,
        "groups": list(entry.groups),
        "state": found.state,
        "here": found.bytes_here,
        "about": entry.size_bytes,
        "documents": counts.num_documents if counts else None,
        "queries": tested[0].num_queries if tested else None,
        "licence": entry.licence,
        "source": entry.source,
    }


def _described(entry: DataSet) -> dict[str, str]:
    """What is worth saying of an entry, in words; what it does not say is left out."""
    values = {
        key: value
        for key, value in entry
        if value not in (None, (), "none") and key not in ("name", "counts", "reference", "unknown")
    }
    values["size_bytes"] = size(entry.size_bytes) if entry.size_bytes else None
    said = {
        key: ", ".join(value) if isinstance(value, tuple) and key in _LISTS else value for key, value in values.items()
    }
    if entry.counts:
        said["documents"] = f"{entry.counts.num_documents:,}" if entry.counts.num_documents else None
        for split in entry.counts.splits:
            said[f"split {split.name}"] = ", ".join(_counted(split.model_dump(exclude={"name"})))
    for figure in entry.reference:
        said[f"{figure.origin} {figure.measure} on {figure.split}"] = (
            f"{figure.value:g}, {figure.method}; {figure.source}"
        )
    for unknown in entry.unknown:
        said[unknown.what] = f"not known: {unknown.why}"
    return {key: str(value) for key, value in said.items() if value is not None}


_LISTS = ("measures", "groups")


def _counted(counts: Mapping[str, int | None]) -> Iterable[str]:
    return (f"{value:,} {key.removeprefix('num_')}" for key, value in counts.items() if value is not None)


def _print_checked(found: Sequence[Checked], console: Console) -> None:
    rows = [{**row.as_row(), "splits": ", ".join(row.splits)} for row in found]
    _print_table(rows, ("name", "verdict", "documents", "splits"), console)
    for row in found:
        for line in (*row.faults, *row.oddities, *row.figures):
            console.print(f"{row.name}: {line}", markup=False, highlight=False, soft_wrap=True)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], console: Console) -> None:
    grid = Table(box=None, pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in ("here", "about", "documents", "queries") else "left")
    for row in rows:
        grid.add_row(*(_cell(row[column]) for column in columns))
    console.print(grid)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def size(num_bytes: int | None) -> str:
    """A size for people, in powers of 1000; empty where it is not known."""
    if num_bytes is None:
        return ""
    power = 0
    value = float(num_bytes)
    while value >= 1000 and power < len(_UNITS) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.0f} {_UNITS[power]}" if power == 0 or value >= 10 else f"{value:.1f} {_UNITS[power]}"


def _print_json(rows: Sequence[Mapping[str, Any]]) -> None:
    print(json.dumps(rows, indent=2))
