"""How much is searched at a time, so that a search stays within a budget of memory.

Shapes: G queries of a group, T documents of a tile, H embedding size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Device = Literal["cpu", "cuda"]
PIECE = 64  # documents that are looked at together; a tile has a multiple of it
MEMORY_BUDGET_BYTES = 256 << 20
_MOST_QUERIES = 1024  # a matrix product gains nothing from more
# More gain nothing: 8,192 keep a core busy, and an accelerator should not wait for its next task.
_MOST_DOCUMENTS: Mapping[Device, int] = {"cpu": 8_192, "cuda": 131_072}
_FEWEST_DOCUMENTS = 1024  # below it a matrix product is slow: rather fewer queries
_BYTES_PER_NUMBER = 18  # of a tile: raw, rounded, one to convert, and the directions in float32 twice
_BYTES_PER_COSINE = 5  # at most float32, and what is found in it
_FIXED_BYTES = 64 << 20  # pairs that are looked at, scored and sorted together, whatever the tile


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How many queries and documents are searched at a time; documents in whole pieces."""

    num_queries: int
    num_documents: int


def tiling(memory_budget_bytes: int, num_queries: int, size: int, *, device: Device) -> Tiling:
    """The largest groups and tiles that fit into the budget.

    The budget holds what a search needs beyond the queries, the blocks that it is given, and its rankings.

    Raises:
        ValueError: not even the smallest do.
    """
    available = memory_budget_bytes - _FIXED_BYTES
    group = max(1, min(num_queries, _MOST_QUERIES))
    while (documents := _documents(available, group, size)) < _FEWEST_DOCUMENTS and group > PIECE:
        group //= 2
    if documents < PIECE:
        least = _FIXED_BYTES + PIECE * (_BYTES_PER_NUMBER * size + _BYTES_PER_COSINE * group)
        raise ValueError(
            f"memory_budget_bytes is {memory_budget_bytes}; a search of vectors of {size} dimensions needs at "
            f"least {least}"
        )
    return Tiling(num_queries=group, num_documents=min(documents, _MOST_DOCUMENTS[device]))


def _documents(available: int, group: int, size: int) -> int:
    per_document = _BYTES_PER_NUMBER * size + _BYTES_PER_COSINE * group
    return max(0, available // per_document // PIECE * PIECE)
