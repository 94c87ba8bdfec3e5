"""What trials and probes took: time, devices, tokens and memory, from the trials' own rows and their status records."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from results.gains import place
from results.layout import PlannedTrial, Status, from_bytes, probe_prefix, status_key, trial_prefix
from results.store import Readable
from search_spaces.specs import Execution, ProbeSpec, TrialSpec, from_json

CELL = ("kind", "task", "family", "layers", "init_regime", "device")
_KEY = {**dict.fromkeys(("trial_id", *CELL), pl.String), "layers": pl.Int64}
_MEASURED = ("run_wall_s", "train_wall_s", "core_s", "device_s", "num_tokens", "peak_memory_bytes")


def trial_costs(store: Readable, trials: pl.DataFrame) -> pl.DataFrame:
    """One row per checkpoint; `trials` are those of `results.collect.Collected`.

    Columns: `trial_id`, CELL, and

    - `run_wall_s`: from the start of the last attempt to its end, evaluation included; null where no status says.
    - `train_wall_s`: of the training, all attempts; null where nothing is trained.
    - `core_s`: threads of all its processes x `train_wall_s`: booked CPU seconds; those used are not recorded.
    - `device_s`: number of devices x `train_wall_s`.
    - `num_tokens`: that training read, pads not counted.
    - `peak_memory_bytes`: of the training, on one device.
    """
    return pl.DataFrame([_of_trial(store, row) for row in trials.iter_rows(named=True)], schema=_schema())


def probe_costs(store: Readable, probes: pl.DataFrame, planned: tuple[PlannedTrial, ...]) -> pl.DataFrame:
    """As `trial_costs`, of the probes that are done; `probes` are those of `results.collect.Collected`."""
    first = probes.unique("probe_id", keep="first", maintain_order=True)
    rows = {row["probe_id"]: row for row in first.iter_rows(named=True)}
    found = [_of_probe(store, rows[p.trial_id]) for p in planned if p.trial_id in rows]
    return pl.DataFrame(found, schema=_schema())


def cell_costs(costs: pl.DataFrame) -> pl.DataFrame:
    """Sums over the trials of each kind, model, init regime and device; what was trained comes first.

    Columns: CELL, `num_trials`, the sums under their names, the highest `peak_memory_bytes`, `tokens_per_s` (of
    training, over all its time) and `trial_ids`. A sum that lacks a trial is none: it is null.
    """
    sums = [
        pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())
        for name in _MEASURED
        if name != "peak_memory_bytes"
    ]
    peak = pl.col("peak_memory_bytes")
    return (
        costs.group_by(CELL, maintain_order=True)
        .agg(
            *sums,
            num_trials=pl.len(),
            peak_memory_bytes=pl.when(peak.null_count() == 0).then(peak.max()),
            trial_ids=pl.col("trial_id").str.join(" "),
        )
        .with_columns(tokens_per_s=pl.col("num_tokens") / pl.col("train_wall_s"))
        .sort(place("kind", ("train", "pilot", "untrained", "probe")), maintain_order=True)
    )


def _schema() -> dict[str, Any]:
    return {**_KEY, **dict.fromkeys(_MEASURED, pl.Float64)}


def _of_trial(store: Readable, row: Mapping[str, Any]) -> dict[str, Any]:
    execution = from_json(TrialSpec, row["spec_json"]).execution
    return {
        **{name: row[name] for name in ("trial_id", "kind", "task", "family", "layers", "init_regime")},
        "device": execution.device,
        "run_wall_s": _span_s(store, status_key(trial_prefix(row["trial_id"]))),
        "train_wall_s": row["train_wall_s"],
        "core_s": _times(row["train_wall_s"], execution.threads * execution.num_devices),
        "device_s": _times(row["train_wall_s"], execution.num_devices),
        "num_tokens": _num_tokens(row),
        "peak_memory_bytes": row["peak_memory_bytes"],
    }


def _of_probe(store: Readable, row: Mapping[str, Any]) -> dict[str, Any]:
    prefix = probe_prefix(row["probe_id"])
    has_spec = store.exists(f"{prefix}/spec.json")
    execution = from_json(ProbeSpec, store.read(f"{prefix}/spec.json")).execution if has_spec else Execution()
    cell = {name: row[name] for name in ("task", "family", "layers", "init_regime")}
    span_s = _span_s(store, status_key(prefix))
    return {"trial_id": row["probe_id"], "kind": "probe", **cell, "device": execution.device, "run_wall_s": span_s}


def _num_tokens(row: Mapping[str, Any]) -> float | None:
    """Both rates are over the time of the optimiser steps: their ratio is tokens per pair."""
    names = ("tokens_per_s", "pairs_per_s", "steps_done", "global_batch")
    if any(row[name] is None for name in names) or not row["pairs_per_s"]:
        return None
    tokens: float = row["tokens_per_s"] / row["pairs_per_s"] * row["steps_done"] * row["global_batch"]
    return tokens


def _times(seconds: float | None, number: int) -> float | None:
    return None if seconds is None else seconds * number


def _span_s(store: Readable, key: str) -> float | None:
    if not store.exists(key):
        return None
    status = from_bytes(Status, store.read(key))
    if status.state == "running" or status.finished_at is None:
        return None
    span = datetime.fromisoformat(status.finished_at) - datetime.fromisoformat(status.started_at)
    return span.total_seconds()
