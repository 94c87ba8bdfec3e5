"""How much is searched at a time, so that a search stays within a budget of memory.

Shapes: G queries of a group, T documents of a tile, H embedding size.
"""

from dataclasses import dataclass

from trainers.search.candidates import PIECE

MEMORY_BUDGET_BYTES = 256 << 20
_MOST_QUERIES = 1024  # a matrix product gains nothing from more
_MOST_DOCUMENTS = 32_768
_FEWEST_DOCUMENTS = 1024  # below it a matrix product is slow: rather fewer queries
_BYTES_PER_NUMBER = 14  # of a tile: raw, direction, half precision, one to convert
_BYTES_PER_COSINE = 8  # half or float32, again in float32 where half precision cannot tell
_FIXED_BYTES = 40 << 20  # pairs that are looked at, scored and sorted together, whatever the tile


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How many queries and documents are searched at a time; documents in whole pieces."""

    num_queries: int
    num_documents: int


def tiling(memory_budget_bytes: int, num_queries: int, size: int) -> Tiling:
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
    return Tiling(num_queries=group, num_documents=min(documents, _MOST_DOCUMENTS))


def _documents(available: int, group: int, size: int) -> int:
    per_document = _BYTES_PER_NUMBER * size + _BYTES_PER_COSINE * group
    return max(0, available // per_document // PIECE * PIECE)
