"""The running top k of each query over a stream of blocks, under every similarity at once.

Shapes: Q queries, G of a group, D documents of a block, T of a tile, N of the corpus, K results, P pairs, H embedding
size.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainers.arrays import AnyFloats, FloatMatrix, Indices, Keys
from trainers.search.blocks import Block
from trainers.search.candidates import Tile, by_norm, candidates, floors
from trainers.search.cosines import Backend, Cosines, CosineTiles, fastest_backend
from trainers.search.exact import as_float32, checked_norms, exact_scores, search_norms
from trainers.search.exclusions import Excluded
from trainers.search.order import NO_KEY, positions_of, rank_keys, scores_of, tie_ranks_of
from trainers.search.running_top import RunningTop
from trainers.search.tiling import MEMORY_BUDGET_BYTES, tiling
from trainers.search_budget import PIECE
from trainers.similarity import query_vectors

INNER_PRODUCT = (0.0,)  # gamma_d of the dot product


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """The best K documents of each query, best first.

    Attributes:
        document_QK: positions in the corpus, int64; -1 where a query finds fewer than K documents.
        score_QK: inner products of the raw queries with the search vectors, float32; -inf where there is no document.
    """

    document_QK: Indices
    score_QK: FloatMatrix

    def under(self, gamma_q: float, query_norm_Q: FloatMatrix) -> "Rankings":
        """The same rankings with the scores of the similarity that has this gamma_q; norms are float32 [Q]."""
        norm_Q1 = as_float32(query_norm_Q)[:, None]
        factor_Q1 = torch.where(norm_Q1 > 0, query_vectors(norm_Q1, gamma_q) / norm_Q1, 1.0).numpy()
        return Rankings(document_QK=self.document_QK, score_QK=self.score_QK * factor_Q1)


class Searcher:
    """The running top k of each query over the blocks added so far, one ranking for each gamma_d."""

    def __init__(
        self,
        query_QH: FloatMatrix,
        k: int,
        *,
        tie_rank_N: Indices,
        gammas_d: Sequence[float] = INNER_PRODUCT,
        excluded: Sequence[Sequence[int]] | None = None,
        memory_budget_bytes: int = MEMORY_BUDGET_BYTES,
        backend: Backend | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            query_QH: raw query vectors, float32: their norms change no ranking.
            k: results per query.
            tie_rank_N: where each document of the corpus stands among equal scores (`tie_ranks`).
            gammas_d: exponents of the documents' norm, each a ranking of its own.
            excluded: for each query the positions of documents that it must not find.
            memory_budget_bytes: what the search may need beyond queries, blocks and rankings; on the device as well.
            backend: where candidates are looked for, by default the fastest on the CPU. No result depends on it.

        Raises:
            ValueError: k is not positive, a query vector is not finite, `excluded` is of another length, or the
                budget is too small.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        self._backend = backend or fastest_backend("cpu")
        self._query_QH = as_float32(query_QH)
        self._query_norm_Q = checked_norms(self._query_QH, "query", 0)
        self._tiling = tiling(memory_budget_bytes, *self._query_QH.shape, device=self._backend.device)
        self._room_TH = torch.empty(self._tiling.num_documents, self._query_QH.shape[1])
        self._cosines = CosineTiles(self._query_QH, self._query_norm_Q, self._backend, self._tiling)
        self._tie_rank_N = tie_rank_N
        self._excluded = Excluded(excluded, len(self._query_QH), len(tie_rank_N))
        self._k = k
        self._tops = {gamma_d: RunningTop(len(self._query_QH), k) for gamma_d in gammas_d}
        self._added_N = np.zeros(len(tie_rank_N), dtype=bool)
        self._num_added = 0

    def add(self, block: Block | AnyFloats) -> None:
        """Search a block; an array holds the raw vectors of the documents that come after all those added before.

        Raises:
            ValueError: documents without an id or added before, another embedding size, or a vector that is not
                finite or too large.
        """
        block = block if isinstance(block, Block) else Block(first=self._num_added, vector_DH=block)
        self._check_fits(block)
        for start in range(0, len(block), self._tiling.num_documents):
            raw_TH = block.raw(start, start + self._tiling.num_documents, self._room_TH)
            self._search(raw_TH, block.first + start)
        self._added_N[block.first : block.first + len(block)] = True
        self._num_added += len(block)

    def rankings(self) -> Mapping[float, Rankings]:
        """The result over the whole corpus for each gamma_d. Raises ValueError where documents are missing."""
        if self._num_added != len(self._tie_rank_N):
            raise ValueError(f"{self._num_added} documents were added, of {len(self._tie_rank_N)} that have an id")
        return {gamma_d: self._ranked(top.keys()) for gamma_d, top in self._tops.items()}

    def best_keys(self) -> Mapping[float, Keys]:
        """The rank keys so far under each gamma_d, int64 [Q, K]: what another search for the same may `merge`."""
        return {gamma_d: top.keys() for gamma_d, top in self._tops.items()}

    def best_keys_of(self, documents: slice) -> Mapping[float, Keys]:
        """Those of `best_keys` that are some documents' own, int64 [Q, at most K]."""
        is_one_N = np.zeros(len(self._tie_rank_N) + 1, dtype=bool)  # the last is for where there is no document
        is_one_N[self._tie_rank_N[documents]] = True
        return {
            gamma_d: _narrowed(np.where(is_one_N[tie_ranks_of(key_QK)], key_QK, NO_KEY))
            for gamma_d, key_QK in self.best_keys().items()
        }

    def merge(self, documents: Sequence[slice], keys: Mapping[float, Keys]) -> None:
        """Take what another search for the same found best in some documents, in place of adding them.

        Args:
            documents: where they stand in the corpus.
            keys: for each gamma_d at least the keys among them that the best of the whole corpus can hold, [Q, any].

        Raises:
            ValueError: some of the documents were added or merged before.
        """
        for some in documents:
            if self._added_N[some].any():
                raise ValueError(
                    f"documents {some.start} to {some.stop - 1} are merged, some of them were added before"
                )
            self._added_N[some] = True
            self._num_added += some.stop - some.start
        for gamma_d, top in self._tops.items():
            row_P, place_P = np.nonzero(keys[gamma_d] != NO_KEY)
            top.add(row_P, keys[gamma_d][row_P, place_P])

    def _ranked(self, key_QK: Keys) -> Rankings:
        document_QK = positions_of(tie_ranks_of(key_QK), self._tie_rank_N)
        return Rankings(document_QK=document_QK, score_QK=scores_of(key_QK))

    def _search(self, raw_TH: Tensor, first: int) -> None:
        norm_T = checked_norms(raw_TH, "document", first)
        position_T = np.arange(first, first + len(raw_TH))
        if (order_T := by_norm(norm_T)) is not None:
            raw_TH, norm_T, position_T = raw_TH[order_T], norm_T[order_T], position_T[order_T.numpy()]
        weights = {gamma_d: search_norms(raw_TH, norm_T, gamma_d) for gamma_d in self._tops}
        self._check_scores(weights.values())
        if not len(self._query_QH):
            return
        self._cosines.load(raw_TH, norm_T, _padded_length(raw_TH))
        for start in range(0, len(self._query_QH), self._tiling.num_queries):
            group = slice(start, min(start + self._tiling.num_queries, len(self._query_QH)))
            found = self._cosines.of(group)
            for gamma_d, weight_T in weights.items():
                tile = self._tile(weight_T, group)
                for query_P, index_P in self._candidates(found, gamma_d, tile, group):
                    self._take(raw_TH, position_T, gamma_d, query_P, index_P)

    def _tile(self, weight_T: Tensor, group: slice) -> Tile:
        def precise(rows: slice) -> Cosines:
            start, stop, _ = rows.indices(group.stop - group.start)
            return self._cosines.precise(slice(group.start + start, group.start + stop))

        padding_T = weight_T.new_zeros(_padded_length(weight_T) - len(weight_T))
        return Tile(
            weight_T=torch.cat([weight_T, padding_T]).float().to(self._backend.device),
            num_documents=len(weight_T),
            num_wanted=self._k + self._excluded.most(group),
            precise=precise,
        )

    def _candidates(
        self, found: Cosines, gamma_d: float, tile: Tile, group: slice
    ) -> Iterator[tuple[Indices, Indices]]:
        score_G = torch.from_numpy(self._tops[gamma_d].floor()[group]).double()
        floor_G = floors(score_G, self._query_norm_Q[group]).to(found.value_GT.device)
        for row_P, index_P in candidates(found, floor_G, tile):
            yield row_P.cpu().numpy() + group.start, index_P.cpu().numpy()

    def _take(self, raw_TH: Tensor, position_T: Indices, gamma_d: float, query_P: Indices, index_P: Indices) -> None:
        allowed_P = self._excluded.allow(query_P, position_T[index_P])
        query_P, index_P = query_P[allowed_P], index_P[allowed_P]
        score_P = exact_scores(self._query_QH, raw_TH, gamma_d, query_P, index_P)
        self._tops[gamma_d].add(query_P, rank_keys(score_P, self._tie_rank_N[position_T[index_P]]))

    def _check_fits(self, block: Block) -> None:
        last, size = block.first + len(block), self._query_QH.shape[1]
        if last > len(self._tie_rank_N):
            raise ValueError(f"{last} documents were added, and only {len(self._tie_rank_N)} have an id")
        if block.vector_DH.shape[1] != size:
            raise ValueError(f"documents have {block.vector_DH.shape[1]} dimensions, and queries {size}")
        if self._added_N[block.first : last].any():
            raise ValueError(f"documents {block.first} to {last - 1} were added, some of them before")

    def _check_scores(self, weights: Iterable[Tensor]) -> None:
        largest_query = float(self._query_norm_Q.max()) if len(self._query_norm_Q) else 0.0
        largest = max((float(weight_T.max()) for weight_T in weights if len(weight_T)), default=0.0)
        if max(largest, largest_query * largest) > torch.finfo(torch.float32).max:
            raise ValueError(
                f"embeddings are too large for float32 scores: the norm of a query is {largest_query:.3g} and of a "
                f"document {largest:.3g}"
            )


def _padded_length(tile: Tensor) -> int:
    """The length of a tile in whole pieces."""
    return len(tile) + -len(tile) % PIECE


def _narrowed(key_QK: Keys) -> Keys:
    """The keys of each row, sorted, without the columns in which no row has any."""
    key_QK.sort(axis=1)
    return key_QK[:, : int((key_QK != NO_KEY).sum(axis=1).max(initial=0))].copy()
