"""What an interrupted pass over a corpus goes on from: rankings and norms so far, not the embeddings themselves.

That is a few numbers for each query and each document, where the embeddings of a corpus may fill a disk.

Shapes: D documents so far, Q queries, K results.
"""

import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from results.store import Store

EVERY_S = 60.0
_MOST_OF_THE_TIME = 0.02  # that writing may take


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamState:
    """Of one data set: the best rank keys under each gamma_d, int64 [Q, K], and norms in the order of the pass."""

    keys: Mapping[float, npt.NDArray[np.int64]]
    norm_D: npt.NDArray[np.float32]


class Snapshots(Protocol):
    """Where a pass leaves its state, and finds that of its predecessor."""

    def last(self) -> tuple[int, Sequence[StreamState]] | None:
        """How many shards were done, and the state of each data set after them; None where nothing is kept."""

    def offer(self, num_shards: int, states: Callable[[], Sequence[StreamState]]) -> None:
        """So many shards are done; `states` is called where that is to be kept."""


class _NotKept:
    def last(self) -> None:
        """Nothing is."""

    def offer(self, num_shards: int, states: Callable[[], Sequence[StreamState]]) -> None:
        """It is not kept."""


NOT_KEPT: Snapshots = _NotKept()


class StoredSnapshots:
    """The newest state in the sweep folder, under a key that names all that decides it."""

    def __init__(
        self, store: Store, key: str, *, verify: Callable[[], None] = lambda: None, every_s: float | None = None
    ) -> None:
        """Write at most every `every_s` seconds (EVERY_S), and so seldom that it takes little of the time."""
        self._store = store
        self._key = key
        self._verify = verify
        self._wait_s = self._every_s = EVERY_S if every_s is None else every_s
        self._written = time.monotonic()

    def last(self) -> tuple[int, Sequence[StreamState]] | None:
        """The state that was written last."""
        if not self._store.exists(self._key):
            return None
        return _read(self._store.read(self._key))

    def offer(self, num_shards: int, states: Callable[[], Sequence[StreamState]]) -> None:
        """Write the state if it is time."""
        start = time.monotonic()
        if start - self._written < self._wait_s:
            return
        self._verify()
        self._store.write(self._key, _bytes(num_shards, states()))
        self._written = time.monotonic()
        self._wait_s = max(self._every_s, (self._written - start) / _MOST_OF_THE_TIME)


def _bytes(num_shards: int, states: Sequence[StreamState]) -> bytes:
    arrays: dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float32]] = {}
    for number, state in enumerate(states):
        arrays[f"norm {number}"] = state.norm_D
        for place, keys in enumerate(state.keys.values()):
            arrays[f"keys {number} {place}"] = keys
    record = {"num_shards": num_shards, "gammas_d": [list(state.keys) for state in states]}
    buffer = io.BytesIO()
    np.savez(buffer, record=np.array(json.dumps(record)), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _read(data: bytes) -> tuple[int, Sequence[StreamState]]:
    with np.load(io.BytesIO(data)) as arrays:
        record = json.loads(str(arrays["record"]))
        states = [
            StreamState(
                keys={gamma_d: arrays[f"keys {number} {place}"] for place, gamma_d in enumerate(gammas_d)},
                norm_D=arrays[f"norm {number}"],
            )
            for number, gammas_d in enumerate(record["gammas_d"])
        ]
    return record["num_shards"], states
