"""What is behind a number: trials with seeds, commits and weights; data with revisions, hashes and queries; probes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from results.collect import Collected
from results.explain.cell import FoundCell
from results.explain.data_behind import NO_RECORD, DataBehind, evaluated_on, evaluations_behind, probed_on, trained_on
from results.layout import Status, from_bytes, probe_prefix, probe_rows, spec_key, status_key
from results.origins import ids_by_column, probe_ids
from results.rendering.values import is_text
from results.rows import provenance_of, read_rows
from results.store import Readable
from results.tables.references import KIND as REFERENCE
from results.tables.table import Origin, Table
from search_spaces.specs import ProbeSpec, TrialSpec, from_json

_ROLES: Mapping[str, str] = {"trial_ids": "own", "trial_id": "own", "compared_trial_ids": "compared"}


@dataclass(frozen=True, kw_only=True)
class TrialBehind:
    """A trial or probe. `role`: what it is to the number, such as 'own' or 'baseline'; `run_id` that of MLflow."""

    trial_id: str
    title: str
    role: str
    seed: int | None
    state: str
    checkpoint_hash: str | None
    commit: str
    weights: str
    run_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything behind one number. `external` says of a number that others made where it is from."""

    table: str
    title: str
    row: int
    names: Mapping[str, str]
    column: str
    header: str
    shown: str | None
    value: Any
    formula: str
    trials: tuple[TrialBehind, ...] = ()
    probes: tuple[TrialBehind, ...] = ()
    data: tuple[DataBehind, ...] = ()
    external: str | None = None
    reason: str | None = None
    tracked_at: str | None = None
    seeds: tuple[int, ...] = field(default=())


def explain(collected: Collected, table: Table, cell: FoundCell) -> Explanation:
    """What is behind the cell of a table that was built from `collected`."""
    origin = table.origin if table.origin.published else (cell.column.origin or table.origin)
    plain = Explanation(
        table=table.name,
        title=table.title,
        row=cell.number,
        names={c.header: text for c in table.columns if is_text(c) and (text := cell.texts[c.key])},
        column=cell.column.key,
        header=cell.column.header,
        shown=cell.texts[cell.column.key],
        value=_value(cell),
        formula=table.formula,
        reason=_reason(cell),
    )
    if origin.published or cell.row.get("kind") == REFERENCE:
        return replace(plain, external=_external(table, cell))
    probed = {probe.trial_id for probe in collected.record.probes}
    every = tuple(_trials(collected, origin, cell.row))
    trials = tuple(trial for trial in every if trial.trial_id not in probed)
    of_probes = (*probe_ids(origin, cell.row), *(trial.trial_id for trial in every if trial.trial_id in probed))
    probes = tuple(_probe(collected, probe_id) for probe_id in of_probes)
    known = collected.trials.filter(pl.col("trial_id").is_in([trial.trial_id for trial in trials]))
    evaluated = evaluations_behind(collected, origin, cell.row)
    return replace(
        plain,
        trials=trials,
        probes=probes,
        data=(
            *dict.fromkeys((*trained_on(known), *probed_on(collected, (probe.trial_id for probe in probes)))),
            *(evaluated_on(collected, known, evaluation) for evaluation in evaluated),
        ),
        seeds=tuple(sorted({trial.seed for trial in (*trials, *probes) if trial.seed is not None})),
    )


def _value(cell: FoundCell) -> Any:
    lower, upper = cell.row[cell.column.key], cell.column.upper
    return lower if upper is None else [lower, cell.row[upper]]


def _reason(cell: FoundCell) -> str | None:
    """What the row says of why this number is absent, or less than it seems; not what it says of others."""
    own: str | None = cell.row.get(cell.column.reason or _reason_of(cell.column.key, cell.row) or "")
    whole: str | None = cell.row.get("reason")
    is_absent = cell.row[cell.column.key] is None or is_text(cell.column)
    return own or (whole if is_absent else None)


def _reason_of(key: str, row: Mapping[str, Any]) -> str | None:
    """`new_gain_reason` of `new_gain_low`: the longest name of a reason with which the key begins."""
    names = [name for name in row if name.endswith("_reason") and f"{key}_".startswith(name.removesuffix("reason"))]
    return max(names, key=len, default=None)


def _external(table: Table, cell: FoundCell) -> str:
    if cell.row.get("kind") == REFERENCE:
        mark = f"{cell.row['source']} "
        note = next((note for note in table.notes if note.startswith(mark)), mark)
        return f"{note.removeprefix(mark).rstrip('.')}; {cell.row['reference']}"
    return next(iter(table.notes), "published by others")


def _trials(collected: Collected, origin: Origin, row: Mapping[str, Any]) -> Iterator[TrialBehind]:
    rows = {trial["trial_id"]: trial for trial in collected.trials.iter_rows(named=True)}
    missing = {item.trial_id: item.reason for item in collected.missing if item.kind == "trial"}
    titles = {trial.trial_id: trial.title for trial in collected.record.trials}
    for column, trial_id in ids_by_column(origin.trials, row):
        role = _ROLES.get(column, column.removesuffix("_trial_ids").replace("_", " "))
        if trial_id in rows:
            yield _trained(rows[trial_id], role)
        else:
            yield TrialBehind(
                trial_id=trial_id,
                title=titles.get(trial_id, ""),
                role=role,
                seed=None,
                state=f"missing: {missing.get(trial_id, 'not in this source')}",
                checkpoint_hash=None,
                commit=NO_RECORD,
                weights=NO_RECORD,
            )


def _trained(trial: Mapping[str, Any], role: str) -> TrialBehind:
    return TrialBehind(
        trial_id=trial["trial_id"],
        title=trial["title"],
        role=role,
        seed=trial["seed"],
        state="finished",
        checkpoint_hash=trial["checkpoint_hash"],
        commit=_commit(trial["provenance_json"]),
        weights=_weights(from_json(TrialSpec, trial["spec_json"])),
    )


def _commit(provenance_json: str) -> str:
    made = json.loads(provenance_json)
    if not made.get("commit"):
        return NO_RECORD
    return f"{made['commit']}{' with changes' if made.get('dirty') else ''}"


def _weights(spec: TrialSpec | ProbeSpec) -> str:
    weights = spec.encoder.weights
    if not weights.content_hash:
        return weights.source
    return f"{weights.source} (content {weights.content_hash})"


def _probe(collected: Collected, probe_id: str) -> TrialBehind:
    store, prefix = collected.store, probe_prefix(probe_id)
    titles = {probe.trial_id: probe.title for probe in collected.record.probes}
    spec = from_json(ProbeSpec, store.read(spec_key(prefix))) if store.exists(spec_key(prefix)) else None
    status = from_bytes(Status, store.read(status_key(prefix))) if store.exists(status_key(prefix)) else None
    return TrialBehind(
        trial_id=probe_id,
        title=titles.get(probe_id, ""),
        role="probe",
        seed=spec.seed if spec else None,
        state=status.state if status else "finished",
        checkpoint_hash=None,
        commit=_commit(_made_with(store, probe_rows(probe_id))),
        weights=_weights(spec) if spec else NO_RECORD,
    )


def _made_with(store: Readable, key: str) -> str:
    made = provenance_of(read_rows(store, key, "probes")) if store.exists(key) else None
    return made or "{}"
