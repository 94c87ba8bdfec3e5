"""What the commands print: notices of a plan, how a sweep stands. Imports no torch, ray or mlflow."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable

from orchestrator.no_sweep import why_no_sweep
from orchestrator.training_facts import training_facts, training_notes
from results.collect import Collected
from results.layout import (
    SWEEP_LOCK,
    SWEEP_RECORD,
    PlannedTrial,
    Status,
    SweepRecord,
    from_bytes,
    probe_prefix,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.locks import is_held
from results.rows import read_rows
from results.schemas import SchemaError
from results.sources import Source, collect_source
from results.store import Store, open_existing_store
from results.studies import planned_samples
from search_spaces.problems import InputError, Problem

if TYPE_CHECKING:
    from orchestrator.plan import Plan


def open_sweep(sweep: str) -> tuple[Store, SweepRecord]:
    """Open a sweep folder, named itself or by the sweep file that made it.

    Raises:
        InputError: there is no sweep.
    """
    uri = _folder_of(sweep)
    store = open_existing_store(uri)
    if store is None or not store.exists(SWEEP_RECORD):
        raise InputError([Problem(where=uri, key="", message=why_no_sweep(sweep, uri))])
    return store, from_bytes(SweepRecord, store.read(SWEEP_RECORD))


def _folder_of(sweep: str) -> str:
    if Path(sweep).suffix not in (".yaml", ".yml") or not Path(sweep).is_file():
        return sweep
    from orchestrator.storage import storage_of
    from search_spaces.load import load_sweep

    return storage_of(load_sweep(Path(sweep)))


def print_notices(plan: "Plan", console: Console) -> None:
    """What is done with a checkpoint or with data that their user may not expect, a line each."""
    for notice in plan.notices:
        console.print(f"note: {notice}", markup=False, highlight=False, soft_wrap=True)


def print_status(store: Store, record: SweepRecord, console: Console) -> None:
    """How each trial and probe stands, by its status record."""
    running = is_held(store, SWEEP_LOCK)
    grid = RichTable(box=None, pad_edge=False)
    for header in ("identity", "trial", "state"):
        grid.add_column(header)
    for header in ("negatives", "pairs/s", "validation"):
        grid.add_column(header, justify="right")
    grid.add_column("reason")
    counts: dict[str, int] = {}
    samples = tuple(planned_samples(store, record))
    trials = {trial.trial_id for trial in (*record.trials, *record.pilots, *samples)}
    for key, title, status in _statuses(store, record, samples):
        state = _state(status, running)
        counts[state] = counts.get(state, 0) + 1
        facts = _fact_cells(store, key) if key in trials else ("", "", "")
        grid.add_row(key, title, state, *facts, (status.reason or "") if status else "")
    console.print(grid)
    print_training_notes(_finished_rows(store, record), console)
    for study in record.studies:
        if study.waiting:
            line = f"{', '.join(study.waiting)}: wait for what search {study.title} finds"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    summary = ", ".join(f"{number} {state}" for state, number in counts.items())
    console.print(f"'{record.name}' is {'running' if running else 'not running'}: {summary}", markup=False)


def _fact_cells(store: Store, trial_id: str) -> tuple[str, str, str]:
    """Negatives per query, pairs/s and validation score (times 100) of a trial, empty where they are not known."""
    facts = training_facts(store, trial_id)
    score = facts.validation_score
    return (
        _shown(facts.num_negatives, ".0f"),
        _shown(facts.pairs_per_s, ".1f"),
        _shown(None if score is None else score * 100, ".2f"),
    )


def _shown(value: float | None, form: str) -> str:
    return "" if value is None or not math.isfinite(value) else format(value, form)


def _finished_rows(store: Store, record: SweepRecord) -> Iterator[Mapping[str, Any]]:
    """The trials' own rows, as far as this version wrote them."""
    for trial in record.trials:
        key = trial_rows(trial.trial_id)
        if store.exists(key):
            with contextlib.suppress(SchemaError):
                yield from read_rows(store, key, "trials").to_pylist()


def print_training_notes(trials: Iterable[Mapping[str, Any]], console: Console) -> None:
    """What of training texts was cut, and the like, a line each."""
    for line in training_notes(trials):
        console.print(f"note: {line}", markup=False, highlight=False, soft_wrap=True)


def _statuses(
    store: Store, record: SweepRecord, samples: Iterable[PlannedTrial]
) -> Iterator[tuple[str, str, Status | None]]:
    of_trials = (*record.pilots, *samples, *record.trials)
    for prefix, planned in ((probe_prefix, record.probes), (trial_prefix, of_trials)):
        for item in planned:
            key = status_key(prefix(item.trial_id))
            status = from_bytes(Status, store.read(key)) if store.exists(key) else None
            yield item.trial_id, item.title, status


def _state(status: Status | None, running: bool) -> str:
    if status is None:
        return "waiting"
    return "interrupted" if status.state == "running" and not running else status.state


def collected_rows(store: Store, record: SweepRecord) -> Collected:
    """The rows of a sweep. Raises InputError where another version of this program wrote them."""
    return source_rows(Source(uri=store.uri, kind="sweep folder", store=store, record=record))


def source_rows(source: Source) -> Collected:
    """The rows of a source. Raises InputError where another version of this program wrote them."""
    try:
        return collect_source(source)
    except SchemaError as error:
        raise InputError([Problem(where=source.uri, key="", message=str(error))]) from error
