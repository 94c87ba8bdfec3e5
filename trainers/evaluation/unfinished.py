"""What a pass leaves for the next one: arrays under a key that names all that they depend on. Imports no torch."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from results.layout import unfinished_prefix
from results.store import Store
from search_spaces.identity import encoding_id
from search_spaces.specs import EvaluationSpec
from trainers.evaluation.measures import depth

_RECORD = "record"
# What numpy and zipfile raise of a file that is cut off, of other bytes or of another program.
_UNREADABLE = (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unfinished:
    """Arrays by name, and what is to be known of them, which JSON can hold."""

    record: Any
    arrays: Mapping[str, npt.NDArray[Any]]


def digest_of(parts: Iterable[str]) -> str:
    """SHA-256 (hex) over parts without a space, in their order."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def unfinished_key(owner: str, what: str, parts: Iterable[str]) -> str:
    """Where it lies: under the checkpoint hash of its owner (or POOLS), named by what it is and what decides it."""
    return f"{unfinished_prefix(owner)}/{what}-{digest_of(parts)[:16]}.npz"


def ranking_parts(checkpoint_hash: str, evaluation: EvaluationSpec) -> list[str]:
    """What decides a checkpoint's rankings on a data set, but the gamma_d and the order of rows."""
    entry = evaluation.data.entry
    return [encoding_id(checkpoint_hash, evaluation), entry.exclusion, str(depth(entry.measures))]


def write_unfinished(store: Store, key: str, left: Unfinished) -> None:
    """Leave it, in place of what lies there."""
    buffer = io.BytesIO()
    np.savez(buffer, **{_RECORD: np.array(json.dumps(left.record))}, **left.arrays)  # type: ignore[arg-type]
    store.write(key, buffer.getvalue())


def read_unfinished(store: Store, key: str) -> Unfinished | None:
    """What was left; None where nothing was, or a file that cannot be read: it saves work, and decides no result."""
    if not store.exists(key):
        return None
    data = store.read(key)
    try:
        with np.load(io.BytesIO(data)) as found:
            arrays = dict(found)
        return Unfinished(record=json.loads(str(arrays.pop(_RECORD))), arrays=arrays)
    except _UNREADABLE:
        return None
