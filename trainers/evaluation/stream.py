"""One data set's share of a pass over passages: its documents in the order of their texts, its search, its norms.

Shapes: Q queries, D documents of a shard, N of the corpus, K results, H embedding size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trainers.arrays import FloatMatrix, Indices
from trainers.evaluation.corpus_order import CorpusOrder
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.snapshots import StreamState
from trainers.search import Block, Rankings, Searcher, fastest_backend

_NORMS_AT_ONCE = 1024
# Told of each shard of a corpus: its number, the positions of its documents [D], their raw embeddings [D, H] and norms.
Keep = Callable[[int, Indices, FloatMatrix, FloatMatrix], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Searched:
    """A data set of a pass: what is searched and asked, to which depth `k`, and under which document exponents.

    `keep` is told of the embeddings while they go by, and an instructed encoder `instruction` of its queries.
    """

    corpus: pa.Table
    queries: JudgedQueries
    gammas_d: Sequence[float]
    k: int
    keep: Keep | None = None
    instruction: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What one encoding gave: the ranking under each gamma_d, raw queries, and the norms of all texts."""

    rankings: Mapping[float, Rankings]
    query_QH: FloatMatrix
    query_norm_Q: FloatMatrix
    document_norm_N: FloatMatrix


def norms(vectors: FloatMatrix) -> FloatMatrix:
    """Euclidean lengths of raw vectors, float32, summed in float64."""
    found = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _NORMS_AT_ONCE):  # float64 copies of a whole shard would be six more of it
        some = vectors[start : start + _NORMS_AT_ONCE].astype(np.float64)
        found[start : start + len(some)] = np.linalg.norm(some, axis=1)
    return found


class Stream:
    """One data set in a pass. Shards may come in any order, each once, from here or from another process."""

    def __init__(
        self,
        searched: Searched,
        query_QH: FloatMatrix,
        order: CorpusOrder,
        *,
        shard_texts: int,
        device: str,
        memory_budget_bytes: int,
    ) -> None:
        """Take the data set, its raw queries and the order of its corpus; `shard_texts` make a shard."""
        self._searched = searched
        self._query_QH = query_QH
        self._order = order
        self._shard_texts = shard_texts
        self._searcher = Searcher(
            query_QH,
            searched.k,
            tie_rank_N=order.tie_rank_N,
            gammas_d=searched.gammas_d,
            excluded=order.places(searched.queries.excluded),
            memory_budget_bytes=memory_budget_bytes,
            backend=fastest_backend(device),
        )
        self._norms: dict[int, FloatMatrix] = {}

    @property
    def gammas_d(self) -> Sequence[float]:
        """The document exponents that it searches under."""
        return self._searched.gammas_d

    def take(self, number: int, vector_DH: FloatMatrix) -> None:
        """Search the documents that have the texts of a shard, of which these are the raw embeddings."""
        some = self._of_shard(number)
        row_D = self._order.text_N[some] - number * self._shard_texts
        self._norms[number] = np.empty(0, dtype=np.float32)
        if not len(row_D):
            return
        if not np.array_equal(row_D, np.arange(len(vector_DH))):
            vector_DH = vector_DH[row_D]
        norm_D = norms(vector_DH)
        self._searcher.add(Block(first=some.start, vector_DH=vector_DH))
        self._norms[number] = norm_D
        if self._searched.keep:
            self._searched.keep(number, self._order.position_N[some], vector_DH, norm_D)

    def state(self) -> StreamState:
        """All that a later process needs to go on after the shards so far."""
        return StreamState(keys=self._searcher.best_keys(), norm_D=self._norms_so_far())

    def state_of(self, number: int) -> StreamState:
        """What one shard that was taken gives to the best of the whole corpus; its norms are then forgotten here."""
        return StreamState(keys=self._searcher.best_keys_of(self._of_shard(number)), norm_D=self._norms.pop(number))

    def merge(self, shards: Sequence[int], state: StreamState) -> None:
        """Take the state that another process had after some shards, ascending, in place of the shards."""
        of_shards = [self._of_shard(number) for number in shards]
        self._searcher.merge(of_shards, state.keys)
        ends = np.cumsum([some.stop - some.start for some in of_shards])[:-1]
        self._norms |= dict(zip(shards, np.split(state.norm_D, ends), strict=True))

    def evaluated(self) -> Evaluated:
        """The result, when all shards were taken or merged."""
        norm_N = np.empty(len(self._order), dtype=np.float32)
        norm_N[self._order.position_N] = self._norms_so_far()
        return Evaluated(
            rankings={gamma_d: self._in_corpus(found) for gamma_d, found in self._searcher.rankings().items()},
            query_QH=self._query_QH,
            query_norm_Q=norms(self._query_QH),
            document_norm_N=norm_N,
        )

    def _norms_so_far(self) -> FloatMatrix:
        return np.concatenate([np.empty(0, dtype=np.float32), *(self._norms[number] for number in sorted(self._norms))])

    def _of_shard(self, number: int) -> slice:
        return self._order.of_texts(number * self._shard_texts, (number + 1) * self._shard_texts)

    def _in_corpus(self, found: Rankings) -> Rankings:
        return Rankings(document_QK=self._order.in_corpus(found.document_QK), score_QK=found.score_QK)
