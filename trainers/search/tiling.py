"""How much is searched at a time, so that a search stays within a budget of memory.

Shapes: G queries of a group, T documents of a tile, H embedding size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainers.search_budget import FIXED_BYTES, PIECE, bytes_per_document

Device = Literal["cpu", "cuda"]
MEMORY_BUDGET_BYTES = 256 << 20
_MOST_QUERIES = 1024  # a matrix product gains nothing from more
# More gain nothing: 8,192 keep a core busy, and an accelerator should not wait for its next task.
_MOST_DOCUMENTS: Mapping[Device, int] = {"cpu": 8_192, "cuda": 131_072}
_FEWEST_DOCUMENTS = 1024  # below it a matrix product is slow: rather fewer queries


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
    available = memory_budget_bytes - FIXED_BYTES
    group = max(1, min(num_queries, _MOST_QUERIES))
    while (documents := _documents(available, group, size)) < _FEWEST_DOCUMENTS and group > PIECE:
        group //= 2
    if documents < PIECE:
        least = FIXED_BYTES + PIECE * bytes_per_document(size, group)
        raise ValueError(
            f"memory_budget_bytes is {memory_budget_bytes}; a search of vectors of {size} dimensions needs at "
            f"least {least}"
        )
    return Tiling(num_queries=group, num_documents=min(documents, _MOST_DOCUMENTS[device]))


def _documents(available: int, group: int, size: int) -> int:
    return max(0, available // bytes_per_document(size, group) // PIECE * PIECE)
