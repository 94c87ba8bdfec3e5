"""What a search needs of memory, and how the searches of one pass share a budget. Torch-free: planning uses it.

Shapes: H embedding size.
"""

BLOCK_DOCUMENTS = 16_384  # of a shard: what is encoded together, and then searched
PIECE = 64  # documents that are looked at together; a tile has a multiple of it
FIXED_BYTES = 64 << 20  # pairs that are looked at, scored and sorted together, whatever the tile
_BYTES_PER_NUMBER = 18  # of a tile: raw, rounded, one to convert, and the directions in float32 twice
_BYTES_PER_COSINE = 5  # at most float32, and what is found in it
_SHARDS = 2  # of embeddings: as it was encoded, and in the order of the documents that have its texts


def bytes_per_document(size: int, num_queries: int) -> int:
    """Of a tile: what each of its documents takes, where so many queries are searched at a time."""
    return _BYTES_PER_NUMBER * size + _BYTES_PER_COSINE * num_queries


def budget_of_each(memory_budget_bytes: int, num_searches: int, size: int) -> int:
    """What each search of a pass may need, so that all of them and the shard that goes by stay within the budget.

    Searches take turns, so that what is fixed (`FIXED_BYTES`) is there once; the rest is shared evenly.

    Raises:
        ValueError: not even the smallest tiles fit.
    """
    least = least_budget(num_searches, size)
    if memory_budget_bytes < least:
        raise ValueError(
            f"the memory budget is {memory_budget_bytes:,} bytes; {num_searches} data sets searched in one pass, with "
            f"embeddings of {size} dimensions, need at least {least:,}"
        )
    return FIXED_BYTES + (memory_budget_bytes - _shard_bytes(size) - FIXED_BYTES) // num_searches


def least_budget(num_searches: int, size: int) -> int:
    """The smallest budget of a pass with so many searches of embeddings of `size` dimensions."""
    return _shard_bytes(size) + FIXED_BYTES + num_searches * PIECE * bytes_per_document(size, PIECE)


def _shard_bytes(size: int) -> int:
    return _SHARDS * BLOCK_DOCUMENTS * size * 4
