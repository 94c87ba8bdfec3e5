"""Exact inner product search over a stream of document blocks, in memory bounded by the block.

FAISS proposes documents of each block, and `trainers/candidates.py` scores them again by one formula that looks at
nothing but the two vectors. What FAISS cut off is looked at again wherever a bound on its rounding error cannot rule
it out: so ties at the kth place are complete, and the result depends neither on blocks nor on threads. Order: score
descending, then document id descending as trec_eval has it, before the cut to k.

Shapes: Q queries, D documents of a block, N of the corpus, C proposed for each query, K results, H embedding size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from trainers.candidates import Candidates, Float64Vector, FloatMatrix, Indices, checked_norms, largest_error, scored

BLOCK_DOCUMENTS = 16_384
_SPARE = 32  # proposed beyond k: enough that rounding and a few excluded documents seldom ask for a second look
_SCAN_PAIRS = 1 << 21  # pairs looked at together in a second look: its scratch stays near 150 MB even if all tie

Ids = pa.Array | pa.ChunkedArray | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """The best K documents of each query, best first.

    Attributes:
        document_QK: positions in the corpus, int64; -1 where a query finds fewer than K documents.
        score_QK: inner products, float32; -inf where there is no document.
    """

    document_QK: Indices
    score_QK: FloatMatrix


class Searcher:
    """The running top k of each query over the blocks added so far."""

    def __init__(
        self, query_QH: FloatMatrix, k: int, *, tie_rank_N: Indices, excluded: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Prepare a search.

        Args:
            query_QH: query vectors, float32.
            k: results per query.
            tie_rank_N: where each document of the corpus stands among equal scores (`tie_ranks`).
            excluded: for each query the positions of documents that it must not find.

        Raises:
            ValueError: k is not positive, a query vector is not finite, or `excluded` is of another length.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        self._query_QH = np.require(query_QH, np.float32, ["C", "W"])
        self._query_norm_Q = checked_norms(self._query_QH, "query", 0)
        self._tie_rank_N = tie_rank_N
        self._excluded_pairs = self._pairs_of(excluded)
        self._num_added = 0
        self._document_QK = np.full((len(query_QH), k), -1, dtype=np.int64)
        self._score_QK = np.full((len(query_QH), k), -np.inf, dtype=np.float32)

    def add(self, document_DH: FloatMatrix) -> None:
        """Search the corpus' next block.

        Raises:
            ValueError: more documents than ids, another embedding size, or a vector that is not finite or too large.
        """
        document_DH = np.require(document_DH, np.float32, ["C", "W"])  # torch takes no read-only (memory-mapped) array
        self._check_fits(document_DH)
        if len(document_DH) and len(self._query_QH):
            document_norm_D = checked_norms(document_DH, "document", self._num_added)
            error_Q = largest_error(self._query_norm_Q, document_norm_D, document_DH.shape[1])
            self._search(document_DH, error_Q)
        self._num_added += len(document_DH)

    def rankings(self) -> Rankings:
        """The result over the whole corpus. Raises ValueError where documents have not been added."""
        if self._num_added != len(self._tie_rank_N):
            raise ValueError(f"{self._num_added} documents were added, of {len(self._tie_rank_N)} that have an id")
        return Rankings(document_QK=self._document_QK, score_QK=self._score_QK)

    def _search(self, document_DH: FloatMatrix, error_Q: Float64Vector) -> None:
        before = self._document_QK.copy(), self._score_QK.copy()
        num_proposed = min(len(document_DH), self._score_QK.shape[1] + _SPARE)
        last_Q = self._add_proposed(document_DH, num_proposed, error_Q)
        if num_proposed == len(document_DH):
            return
        # A document that was not proposed scores at most last + error. Where that reaches the kth score, any number
        # of them may stand above it, or tie with it: those queries look at the whole block instead.
        threshold_Q = self._score_QK[:, -1] - error_Q
        unsure = np.flatnonzero(last_Q >= threshold_Q)
        self._document_QK[unsure], self._score_QK[unsure] = before[0][unsure], before[1][unsure]
        step = max(1, _SCAN_PAIRS // len(document_DH))
        for start in range(0, len(unsure), step):
            self._add_scanned(unsure[start : start + step], document_DH, threshold_Q)

    def _add_proposed(self, document_DH: FloatMatrix, num_proposed: int, error_Q: Float64Vector) -> FloatMatrix:
        """Merge what FAISS proposes; give the lowest proposed score of each query."""
        score_QC, index_QC = faiss.knn(self._query_QH, document_DH, num_proposed, metric=faiss.METRIC_INNER_PRODUCT)
        query_P, column_P = np.nonzero(score_QC >= (self._score_QK[:, -1] - error_Q)[:, None])
        self._merge(self._scored(document_DH, query_P, index_QC[query_P, column_P]))
        last_Q: FloatMatrix = score_QC[:, -1]
        return last_Q

    def _add_scanned(self, query_R: Indices, document_DH: FloatMatrix, threshold_Q: Float64Vector) -> None:
        """Merge every document of the block that reaches the threshold, for the queries R."""
        # torch and not numpy, whose own threads `trainers.threads` does not reach.
        score_RD = (torch.from_numpy(self._query_QH[query_R]) @ torch.from_numpy(document_DH).T).numpy()
        row_P, index_P = np.nonzero(score_RD >= threshold_Q[query_R, None])
        self._merge(self._scored(document_DH, query_R[row_P], index_P))

    def _scored(self, document_DH: FloatMatrix, query_P: Indices, index_P: Indices) -> Candidates:
        if len(self._excluded_pairs):
            pair_P = query_P * len(self._tie_rank_N) + index_P + self._num_added
            allowed_P = ~np.isin(pair_P, self._excluded_pairs)
            query_P, index_P = query_P[allowed_P], index_P[allowed_P]
        return scored(self._query_QH, document_DH, query_P, index_P, first=self._num_added)

    def _merge(self, found: Candidates) -> None:
        """Put candidates into the running rankings of their queries."""
        changed = np.unique(found.query_P)
        row_S, column_S = np.nonzero(self._document_QK[changed] >= 0)
        kept_S = changed[row_S]
        query_M = np.concatenate([kept_S, found.query_P])
        document_M = np.concatenate([self._document_QK[kept_S, column_S], found.document_P])
        score_M = np.concatenate([self._score_QK[kept_S, column_S], found.score_P])
        order_M = np.lexsort((self._tie_rank_N[document_M], -score_M, query_M))
        query_M = query_M[order_M]
        place_M = np.arange(len(query_M)) - np.searchsorted(query_M, query_M)  # in its query's ranking, from 0
        in_time = place_M < self._score_QK.shape[1]
        places = query_M[in_time], place_M[in_time]
        self._document_QK[places] = document_M[order_M][in_time]
        self._score_QK[places] = score_M[order_M][in_time]

    def _check_fits(self, document_DH: FloatMatrix) -> None:
        num_documents, size = self._num_added + len(document_DH), self._query_QH.shape[1]
        if num_documents > len(self._tie_rank_N):
            raise ValueError(f"{num_documents} documents were added, and only {len(self._tie_rank_N)} have an id")
        if document_DH.shape[1] != size:
            raise ValueError(f"documents have {document_DH.shape[1]} dimensions, and queries {size}")

    def _pairs_of(self, excluded: Sequence[Sequence[int]] | None) -> Indices:
        """One number for each excluded pair: query row * N + document position."""
        if excluded is None:
            return np.empty(0, dtype=np.int64)
        if len(excluded) != len(self._query_QH):
            raise ValueError(
                f"excluded documents for {len(excluded)} queries, where {len(self._query_QH)} are searched"
            )
        size = len(self._tie_rank_N)
        pairs = [row * size + position for row, positions in enumerate(excluded) for position in positions]
        return np.array(sorted(pairs), dtype=np.int64)


def search(
    query_QH: FloatMatrix,
    blocks: Iterable[FloatMatrix],
    k: int,
    *,
    document_ids: Ids,
    excluded: Sequence[Sequence[int]] | None = None,
) -> Rankings:
    """The k documents of highest inner product for each query; ties by id descending. Else as `Searcher`."""
    searcher = Searcher(query_QH, k, tie_rank_N=tie_ranks(document_ids), excluded=excluded)
    for block_DH in blocks:
        searcher.add(block_DH)
    return searcher.rankings()


def in_blocks(vectors_NH: FloatMatrix, num_rows: int = BLOCK_DOCUMENTS) -> Iterator[FloatMatrix]:
    """Consecutive views of at most `num_rows` rows of an array, which may be memory-mapped."""
    for start in range(0, len(vectors_NH), num_rows):
        yield vectors_NH[start : start + num_rows]


def tie_ranks(document_ids: Ids) -> Indices:
    """Where each document stands [N] among equal scores: id descending, by UTF-8 bytes as trec_eval's strcmp."""
    ids = document_ids if isinstance(document_ids, pa.Array | pa.ChunkedArray) else pa.array(document_ids, pa.string())
    order = pc.sort_indices(ids, sort_keys=[("", "descending")]).to_numpy()
    ranks: Indices = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
