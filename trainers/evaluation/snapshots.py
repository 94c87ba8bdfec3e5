"""What an interrupted pass over a corpus goes on from: rankings and norms so far, not the embeddings themselves.

That is a few numbers for each query and each document, where the embeddings of a corpus may fill a disk.

Shapes: D documents of some shards, Q queries, K results.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from results.store import Store
from trainers.arrays import FloatMatrix, Keys
from trainers.evaluation.unfinished import Unfinished, read_unfinished, write_unfinished

EVERY_S = 60.0
_MOST_OF_THE_TIME = 0.02  # that writing may take


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamState:
    """Of one data set, after some shards: the best rank keys under each gamma_d, int64 [Q, at most K], and norms.

    Norms are those of the shards' documents, in the order of the pass.
    """

    keys: Mapping[float, Keys]
    norm_D: FloatMatrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """After which shards, ascending, and the state of each data set after them."""

    shards: Sequence[int]
    states: Sequence[StreamState]


class Snapshots(Protocol):
    """Where a pass leaves its state, and finds that of its predecessor."""

    def last(self, gammas_d: Sequence[Collection[float]]) -> Snapshot | None:
        """The state that was left; None where nothing is kept that knows each data set's best under these gamma_d."""

    def offer(self, shards: Collection[int], states: Callable[[], Sequence[StreamState]]) -> None:
        """These shards are done; `states` is called where that is to be kept."""


class _NotKept:
    def last(self, gammas_d: Sequence[Collection[float]]) -> None:
        """Nothing is."""

    def offer(self, shards: Collection[int], states: Callable[[], Sequence[StreamState]]) -> None:
        """It is not kept."""


NOT_KEPT: Snapshots = _NotKept()


class StoredSnapshots:
    """The newest state in the sweep folder, under a key that names all that decides it but the gamma_d."""

    def __init__(
        self, store: Store, key: str, *, verify: Callable[[], None] = lambda: None, every_s: float | None = None
    ) -> None:
        """Write at most every `every_s` seconds (EVERY_S), and so seldom that it takes little of the time."""
        self._store = store
        self._key = key
        self._verify = verify
        self._wait_s = self._every_s = EVERY_S if every_s is None else every_s
        self._written = time.monotonic()

    def last(self, gammas_d: Sequence[Collection[float]]) -> Snapshot | None:
        """The state that was written last, if it knows each data set's best under these gamma_d, and maybe more."""
        left = read_unfinished(self._store, self._key)
        if left is None:
            return None
        found = _snapshot(left)
        known = all(set(some) <= set(state.keys) for some, state in zip(gammas_d, found.states, strict=True))
        return found if known else None

    def offer(self, shards: Collection[int], states: Callable[[], Sequence[StreamState]]) -> None:
        """Write the state if it is time."""
        start = time.monotonic()
        if start - self._written < self._wait_s:
            return
        self._verify()
        write_unfinished(self._store, self._key, _unfinished(Snapshot(shards=sorted(shards), states=states())))
        self._written = time.monotonic()
        self._wait_s = max(self._every_s, (self._written - start) / _MOST_OF_THE_TIME)


def _unfinished(snapshot: Snapshot) -> Unfinished:
    arrays: dict[str, Keys | FloatMatrix] = {}
    for number, state in enumerate(snapshot.states):
        arrays[f"norm {number}"] = state.norm_D
        for place, keys in enumerate(state.keys.values()):
            arrays[f"keys {number} {place}"] = keys
    record = {"shards": list(snapshot.shards), "gammas_d": [list(state.keys) for state in snapshot.states]}
    return Unfinished(record=record, arrays=arrays)


def _snapshot(left: Unfinished) -> Snapshot:
    states = [
        StreamState(
            keys={gamma_d: left.arrays[f"keys {number} {place}"] for place, gamma_d in enumerate(gammas_d)},
            norm_D=left.arrays[f"norm {number}"],
        )
        for number, gammas_d in enumerate(left.record["gammas_d"])
    ]
    return Snapshot(shards=left.record["shards"], states=states)
