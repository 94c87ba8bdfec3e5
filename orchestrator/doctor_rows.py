"""Rows and records of a sweep folder that cannot be read, by this version or at all."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from orchestrator.findings import Finding
from results import layout
from results.layout import Status
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Store
from search_spaces.identity import probe_id, trial_id
from search_spaces.specs import ProbeSpec, TrialSpec, from_json

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
    }.items()
}
_AGAIN = "is deleted, and made again by the next run"


def row_findings(store: Store, keys: list[str]) -> Iterator[Finding]:
    """Each file of rows that is damaged, or of another version of the row contract."""
    for key in keys:
        schema = next((name for pattern, name in _ROWS.items() if pattern.fullmatch(key)), None)
        if schema and (fault := row_fault(store, key, schema)):
            yield Finding(severity="broken", where=key, what=fault, remedy=_AGAIN, cure=_deletion(store, key))


def row_fault(store: Store, key: str, schema: str) -> str | None:
    """Why the rows cannot be read, in one line; None where they can."""
    try:
        read_rows(store, key, schema)
    except SchemaError as error:
        return str(error)
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"damaged: {' '.join(str(error).split())}"
    return None


def record_findings(store: Store, keys: list[str]) -> Iterator[Finding]:
    """Each small JSON record that is damaged, and each spec that lies in another trial's folder."""
    for key in keys:
        if read := _reader_of(key):
            try:
                read(store.read(key))
            except (ValueError, ValidationError, TypeError, KeyError) as error:
                fault = f"damaged: {' '.join(str(error).split())[:200]}"
                yield Finding(severity="broken", where=key, what=fault, remedy=_AGAIN, cure=_deletion(store, key))


def _reader_of(key: str) -> Callable[[bytes], Any] | None:
    folder, _, name = key.rpartition("/")
    kind, _, identity = folder.partition("/")
    if kind not in ("trials", "probes") or "/" in identity:
        return None
    if name == "status.json":
        return lambda data: layout.from_bytes(Status, data)
    if name == "evaluations.json":
        return layout.evaluations_from_bytes
    if name == "spec.json":
        return lambda data: _check_identity(kind, identity, data)
    return None


def _check_identity(kind: str, identity: str, data: bytes) -> None:
    found = trial_id(from_json(TrialSpec, data)) if kind == "trials" else probe_id(from_json(ProbeSpec, data))
    if found != identity:
        raise ValueError(f"this is the spec of {found}, or of another version of this program")


def _deletion(store: Store, key: str) -> Callable[[], None]:
    """The rows go; of kept embeddings all parts, which count as kept when the last is there; of a training all."""
    parts = re.fullmatch(r"(encodings/[^/]+/embeddings)/.+", key)
    whole = re.fullmatch(r"trials/([^/]+)/(trial|history)\.parquet", key)
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
        layout.checkpoint_prefix(identity),
        layout.last_checkpoint_prefix(identity),
        f"{layout.trial_prefix(identity)}/steps",
        f"{layout.trial_prefix(identity)}/best",
        layout.status_key(layout.trial_prefix(identity)),
    ):
        store.delete(prefix)
