"""The running top K of each query, as sorted rank keys.

Shapes: Q queries, K results, P pairs of a query and a document, C new keys of a query.
"""

import numpy as np

from trainers.arrays import Indices, Keys, Scores
from trainers.search.order import NO_KEY, scores_of

_MERGED_KEYS = 1 << 21  # sorted at once: 16 MB


class RunningTop:
    """The K smallest rank keys of each query among those added so far.

    What is added waits until it is worth a merge: the floor may lag behind, which costs candidates and no result.
    """

    def __init__(self, num_queries: int, k: int) -> None:
        self._key_QK: Keys = np.full((num_queries, k), NO_KEY)
        self._waiting: list[tuple[Indices, Keys]] = []
        self._num_waiting = 0

    def add(self, query_P: Indices, key_P: Keys) -> None:
        """Take rank keys of documents that were not added before."""
        self._waiting.append((query_P, key_P))
        self._num_waiting += len(query_P)
        if 4 * self._num_waiting > self._key_QK.size:
            self._merge()

    def floor(self) -> Scores:
        """A score [Q] that K documents reach already; -inf where there are not K of them yet."""
        return scores_of(self._key_QK[:, -1])

    def keys(self) -> Keys:
        """The best keys, sorted, int64 [Q, K]; NO_KEY where a query has fewer than K documents."""
        self._merge()
        return self._key_QK

    def _merge(self) -> None:
        if not self._waiting:
            return
        query_P, key_P = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._num_waiting = [], 0
        order_P = np.lexsort((key_P, query_P))
        query_P, key_P = query_P[order_P], key_P[order_P]
        place_P = np.arange(len(query_P)) - np.searchsorted(query_P, query_P)  # among its query's new ones, from 0
        in_time_P = place_P < self._key_QK.shape[1]
        query_P, key_P, place_P = query_P[in_time_P], key_P[in_time_P], place_P[in_time_P]
        changed, row_P = np.unique(query_P, return_inverse=True)
        step = max(1, _MERGED_KEYS // (2 * self._key_QK.shape[1]))
        for start in range(0, len(changed), step):
            some = slice(*np.searchsorted(row_P, [start, start + step]))
            self._put(changed[start : start + step], row_P[some] - start, place_P[some], key_P[some])

    def _put(self, query_R: Indices, row_P: Indices, place_P: Indices, key_P: Keys) -> None:
        new_RC: Keys = np.full((len(query_R), int(place_P.max()) + 1), NO_KEY)
        new_RC[row_P, place_P] = key_P
        both = np.concatenate([self._key_QK[query_R], new_RC], axis=1)
        both.sort(axis=1)
        self._key_QK[query_R] = both[:, : self._key_QK.shape[1]]
