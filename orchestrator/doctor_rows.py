"""Rows and records of a sweep folder that cannot be read, by this version or at all."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.findings import Finding
from results import layout
from results.layout import PoolRecord, Status
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Store
from results.studies import read_record
from search_spaces.identity import pool_id, probe_id, trial_id
from search_spaces.problems import UnreadableError
from search_spaces.specs import EvaluationSpec, ProbeSpec, TrialSpec, from_json

_ROWS: Mapping[re.Pattern[str], str] = {
    re.compile(pattern): schema
    for pattern, schema in {
        r"trials/[^/]+/history\.parquet": "history",
        r"encodings/[^/]+/norms\.parquet": "norms",
        r"encodings/[^/]+/embeddings/[^/]+\.parquet": "embeddings",
        r"judgements/[^/]+\.parquet": "judgements",
        r"evaluations/[^/]+/per_query\.parquet": "per_query",
        r"evaluations/[^/]+/sts\.parquet": "sts",
        r"answers/[^/]+/qa\.parquet": "qa",
        r"probes/[^/]+/probes\.parquet": "probes",
        r"trials/[^/]+/trial\.parquet": "trials",
        r"trials/[^/]+/pilot\.parquet": "per_query",
        r"(pools|pool_parts)/[^/]+/documents\.parquet": "pools",
    }.items()
}
_AGAIN = "is deleted, and made again by the next run"
_POOL_AGAIN = "the pool is deleted, and made again by the next run that evaluates on it"


_IDENTITY_OF: Mapping[str, Callable[[bytes], str]] = {
    "trials": lambda data: trial_id(from_json(TrialSpec, data)),
    "probes": lambda data: probe_id(from_json(ProbeSpec, data)),
    "pools": lambda data: pool_id(from_json(EvaluationSpec, data)),
}


def row_findings(store: Store, keys: list[str]) -> Iterator[Finding]:
    """Each file of rows that is damaged, or of another version of the row contract."""
    for key in keys:
        schema = next((name for pattern, name in _ROWS.items() if pattern.fullmatch(key)), None)
        if schema and (fault := row_fault(store, key, schema)):
            yield _broken(store, key, fault)


def row_fault(store: Store, key: str, schema: str) -> str | None:
    """Why the rows cannot be read, in one line; None where they can."""
    try:
        read_rows(store, key, schema)
    except SchemaError as error:
        return str(error)
    return None


def record_findings(store: Store, keys: list[str]) -> Iterator[Finding]:
    """Each small JSON record that is damaged, and each spec that lies in another trial's folder."""
    for key in keys:
        if read := _reader_of(key):
            try:
                read(store.read(key))
            except UnreadableError as error:
                yield _broken(store, key, str(error))
            except (ValueError, TypeError, KeyError) as error:
                yield _broken(store, key, f"damaged: {' '.join(str(error).split())[:200]}")


def _broken(store: Store, key: str, fault: str) -> Finding:
    remedy = _POOL_AGAIN if key.startswith("pools/") else _AGAIN
    return Finding(severity="broken", where=key, what=fault, remedy=remedy, cure=_deletion(store, key))


def _reader_of(key: str) -> Callable[[bytes], Any] | None:
    folder, _, name = key.rpartition("/")
    kind, _, identity = folder.partition("/")
    if kind == "studies" and name == "study.json":
        return lambda data: read_record(key, data)
    if kind not in ("trials", "probes", "pools") or "/" in identity:
        return None
    if name == "pool.json":
        return lambda data: layout.from_bytes(PoolRecord, data)
    if name == "status.json":
        return lambda data: layout.from_bytes(Status, data)
    if name == "evaluations.json":
        return layout.evaluations_from_bytes
    if name == "spec.json":
        return lambda data: _check_identity(kind, identity, data)
    return None


def _check_identity(kind: str, identity: str, data: bytes) -> None:
    found = _IDENTITY_OF[kind](data)
    if found != identity:
        raise ValueError(f"this is the spec of {found}, or of another version of this program")


def _deletion(store: Store, key: str) -> Callable[[], None]:
    """The rows go; of a pool or training all; of kept embeddings all parts: the last says that they are kept."""
    parts = re.fullmatch(r"(encodings/[^/]+/embeddings|pools/[^/]+)/.+", key)
    whole = re.fullmatch(r"trials/([^/]+)/(trial|history|pilot)\.parquet", key)
    if whole:
        return lambda: forget_training(store, whole[1])
    return lambda: store.delete(parts[1] if parts else key)


def forget_training(store: Store, identity: str) -> None:
    """Delete all of a trial's training, so that the next run trains it from its start; its evaluations' rows stay.

    Its own row goes first: a deletion that is cut off leaves a trial that is to be trained.
    """
    for prefix in (
        layout.trial_rows(identity),
        layout.history_rows(identity),
        layout.pilot_rows(identity),
        layout.checkpoint_prefix(identity),
        layout.last_checkpoint_prefix(identity),
        f"{layout.trial_prefix(identity)}/steps",
        f"{layout.trial_prefix(identity)}/best",
        layout.status_key(layout.trial_prefix(identity)),
    ):
        store.delete(prefix)
