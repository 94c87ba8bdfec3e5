"""Exact search over a corpus of any size, in memory bounded by a budget.

Blocks of raw embeddings stream by (`blocks.py`). Each is cut into tiles; a matrix product, in half precision where
that is faster, gives approximate cosines with a bound on their error (`cosines.py`), and every pair that the bound
cannot rule out of the ranking (`candidates.py`) is scored by one formula that looks at nothing but the two vectors
(`exact.py`). So ties at the kth place are complete, and the result depends neither on blocks, nor on the backend, the
budget or threads. Order (`order.py`): score descending, then document id descending as trec_eval has it, before the
cut to k. A document's norm is taken out of the product, so that one product serves every similarity.
"""

from trainers.search.blocks import Block
from trainers.search.cosines import BACKENDS, Backend, fastest_backend
from trainers.search.order import tie_ranks
from trainers.search.searcher import Rankings, Searcher
from trainers.search.tiling import MEMORY_BUDGET_BYTES
from trainers.search_budget import BLOCK_DOCUMENTS

__all__ = [
    "BACKENDS",
    "BLOCK_DOCUMENTS",
    "MEMORY_BUDGET_BYTES",
    "Backend",
    "Block",
    "Rankings",
    "Searcher",
    "fastest_backend",
    "tie_ranks",
]
