"""What `densesweep explain` says: everything behind one number of a table, with the MLflow runs that mirror it."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.show import open_sweep
from orchestrator.show_tables import build_table, chosen_rows
from orchestrator.tracking_place import place_of
from results.explain.behind import Explanation, explain
from results.explain.cell import CellError, find_cell
from results.explain.show import as_json as shown_as_json
from results.explain.show import as_text
from results.selection import SelectionError
from results.sources import Source
from results.tables.table import TableOptions
from search_spaces.problems import InputError, Problem

_SWEEP_ID = "tracking/sweep_id"


def explain_cell(source: Source, table: str, cell: Sequence[str], options: TableOptions, *, as_json: bool) -> str:
    """The explanation of a cell, as text or JSON.

    Raises:
        InputError: no such table or cell, or several are meant.
    """
    collected = chosen_rows(source, options.where)
    try:
        built = build_table(table, collected, options)
        found = find_cell(built, cell)
    except (SelectionError, CellError) as error:
        raise InputError([Problem(where=f"explain {table}", key="", message=str(error))]) from error
    explained = _with_runs(explain(collected, built, found), source)
    return shown_as_json(explained) if as_json else as_text(explained)


def _with_runs(explained: Explanation, source: Source) -> Explanation:
    """With MLflow's runs, where they are known or a mirror's place answers; it never fails for that."""
    if not (explained.trials or explained.probes):
        return explained
    runs: dict[str, str] = {}
    told = []
    for leaf in source.leaves:
        found, where = _runs_of(leaf)
        runs |= found
        told.append(where)
    return replace(
        explained,
        trials=tuple(replace(trial, run_id=runs.get(trial.trial_id)) for trial in explained.trials),
        probes=tuple(replace(probe, run_id=runs.get(probe.trial_id)) for probe in explained.probes),
        tracked_at="; ".join(told),
    )


def _runs_of(leaf: Source) -> tuple[dict[str, str], str]:
    """(runs by trial and probe, where they are or why there are none) of one source."""
    if leaf.runs:
        return dict(leaf.runs), f"runs of {leaf.uri}"
    folder = leaf.uri if leaf.kind == "sweep folder" else leaf.origin
    if folder is None:
        return {}, f"{leaf.uri} does not say which runs mirror it"
    try:
        store, record = open_sweep(folder)
    except InputError:
        return {}, f"{leaf.uri} was collected from a sweep folder that is not here any more"
    if not store.exists(_SWEEP_ID):
        return {}, "this sweep was never mirrored"
    from orchestrator.tracking import run_ids

    place = place_of(store, record.tracking_uri, where=store.uri)
    try:
        runs = run_ids(store, record, place)
    except Exception as error:  # noqa: BLE001 - whatever a server that is away raises: the folder is the truth
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        return {}, f"{place.uri} did not answer ({reason})"
    return runs, f"runs of {place.uri}, experiment '{record.name}'" if runs else f"no runs at {place.uri}"
