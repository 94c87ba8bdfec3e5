"""Which documents each query must not find: itself in arguana and quora, `excluded_ids` in BRIGHT.

Shapes: Q queries, P pairs of a query and a document.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trainers.arrays import Indices


class Excluded:
    """Pairs that no ranking may hold, as one sorted number for each pair: query row * N + position."""

    def __init__(self, excluded: Sequence[Sequence[int]] | None, num_queries: int, num_documents: int) -> None:
        if excluded is not None and len(excluded) != num_queries:
            raise ValueError(f"excluded documents for {len(excluded)} queries, where {num_queries} are searched")
        self._num_documents = num_documents
        unique = [sorted(set(positions)) for positions in excluded or [()] * num_queries]
        self._num_Q: Indices = np.array([len(positions) for positions in unique], dtype=np.int64)
        pairs = [row * num_documents + position for row, positions in enumerate(unique) for position in positions]
        self._pairs: Indices = np.array(pairs, dtype=np.int64)

    def most(self, group: slice) -> int:
        """The largest number of documents that a query of the group excludes."""
        return int(self._num_Q[group].max(initial=0))

    def allow(self, query_P: Indices, document_P: Indices) -> npt.NDArray[np.bool_]:
        """Whether the query of each pair may find its document."""
        if not len(self._pairs):
            return np.ones(len(query_P), dtype=bool)
        pair_P = query_P * self._num_documents + document_P
        place_P = np.searchsorted(self._pairs, pair_P).clip(max=len(self._pairs) - 1)
        allowed: npt.NDArray[np.bool_] = self._pairs[place_P] != pair_P
        return allowed
