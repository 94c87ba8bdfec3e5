"""What takes how much of a sweep folder."""

import re
from collections.abc import Mapping

from results.store import Store

_CHECKPOINTS = "trials/[^/]+/"
# The first that matches says what a key is.
KINDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "checkpoints to resume from": f"{_CHECKPOINTS}steps/",
        "best weights so far": f"{_CHECKPOINTS}best/",
        "final checkpoints": f"{_CHECKPOINTS}checkpoint/",
        "last checkpoints": f"{_CHECKPOINTS}last_checkpoint/",
        "kept embeddings": "encodings/[^/]+/embeddings/",
        "interrupted evaluations": "unfinished/",
        "pools": "(pools|pool_parts)/",
        "logs": "logs/",
        "MLflow database and artifacts": "tracking/",
        "rows and records": "",
    }.items()
}
_OF_CHECKPOINTS = tuple(KINDS)[:4]


def kind_of(key: str) -> str:
    """What a key of a sweep folder is, in words."""
    return next(name for name, pattern in KINDS.items() if pattern.match(key))


def usage(store: Store) -> dict[str, int]:
    """Bytes by kind, the largest first; kinds that take nothing are left out."""
    found: dict[str, int] = {}
    for key, num_bytes in store.sizes("").items():
        found[kind_of(key)] = found.get(kind_of(key), 0) + num_bytes
    if left := sum(leftover.num_bytes for leftover in store.leftovers()):
        found["unfinished writes"] = left
    return dict(sorted(found.items(), key=lambda kind: -kind[1]))


def checkpoint_bytes(store: Store) -> int:
    """What all checkpoints of the sweep take, which is what its quota limits."""
    return sum(size for key, size in store.sizes("trials").items() if kind_of(key) in _OF_CHECKPOINTS)
