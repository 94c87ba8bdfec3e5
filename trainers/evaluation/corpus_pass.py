"""One pass over the passages of several data sets: each different text is encoded once and handed to every search.

Documents of a data set come in the order in which the pass meets their texts, which is its own order where it has no
text twice and shares none. Searches depend on no order, so this is told to nobody: positions in rankings, and norms,
are the corpus's own. Memory holds one shard of embeddings, and of each document some numbers.

Shapes: S data sets, Q queries, D documents of a shard, N of a corpus, U different texts, K results, H embedding size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from search_spaces.specs import Precision
from trainers.encoders.encode import Progress, encode, encode_shards
from trainers.encoders.encoder import Encoder
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.shared_texts import Indices, TextOrder
from trainers.evaluation.snapshots import NOT_KEPT, Snapshots, StreamState
from trainers.search import BLOCK_DOCUMENTS, MEMORY_BUDGET_BYTES, Rankings, Searcher, fastest_backend, tie_ranks
from trainers.search_budget import budget_of_each

FloatMatrix = npt.NDArray[np.float32]
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


def search_corpora(
    encoder: Encoder,
    searched: Sequence[Searched],
    order: TextOrder,
    *,
    precision: Precision,
    snapshots: Snapshots = NOT_KEPT,
    memory_budget_bytes: int | None = None,
    progress: Progress | None = None,
    skipped: Progress | None = None,
) -> list[Evaluated]:
    """Encode the queries of each data set, and every different passage once; search while the shards go by.

    Args:
        encoder: on the device that encodes.
        searched: the data sets, whose rankings are ready together.
        order: the `text_order` of their corpora.
        precision: of the encoder.
        snapshots: where the state after a shard is kept, from which an interrupted pass goes on to the same bits.
        memory_budget_bytes: what the searches and the shard that goes by may need together, beyond queries and
            rankings; None lets each search have MEMORY_BUDGET_BYTES. It changes no bit of the result.
        progress: told how many more texts are encoded.
        skipped: told how many were before the snapshot was made.

    Raises:
        ValueError: embeddings are not finite, or the budget is too small.
    """
    budget = MEMORY_BUDGET_BYTES
    if memory_budget_bytes is not None:
        budget = budget_of_each(memory_budget_bytes, len(searched), encoder.hidden_size)
    query_SQH = [_encoded_queries(encoder, data_set, precision, progress) for data_set in searched]
    device = next(encoder.parameters()).device.type
    streams = [
        _Stream(data_set, query_QH, text_N, device, budget)
        for data_set, query_QH, text_N in zip(searched, query_SQH, order.text_SN, strict=True)
    ]
    first = _restored(streams, snapshots, len(order), skipped)
    shards = _shards(order, searched, first)
    encoded = encode_shards(encoder, shards, "document", precision=precision, progress=progress)
    for number, vector_DH in enumerate(encoded, first):
        for stream in streams:
            stream.take(number, vector_DH)
        snapshots.offer(number + 1, lambda: [stream.state() for stream in streams])
    return [stream.evaluated() for stream in streams]


def _encoded_queries(
    encoder: Encoder, searched: Searched, precision: Precision, progress: Progress | None
) -> FloatMatrix:
    with encoder.instructed(searched.instruction):
        return encode(encoder, searched.queries.texts, "query", precision=precision, progress=progress)


def norms(vectors: FloatMatrix) -> FloatMatrix:
    """Euclidean lengths of raw vectors, float32, summed in float64."""
    found = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _NORMS_AT_ONCE):  # float64 copies of a whole shard would be six more of it
        some = vectors[start : start + _NORMS_AT_ONCE].astype(np.float64)
        found[start : start + len(some)] = np.linalg.norm(some, axis=1)
    return found


def _restored(streams: Sequence["_Stream"], snapshots: Snapshots, total: int, skipped: Progress | None) -> int:
    """Bring the streams to where the last snapshot was made; the number of the next shard."""
    found = snapshots.last()
    if found is None:
        return 0
    num_shards, states = found
    for stream, state in zip(streams, states, strict=True):
        stream.restore(num_shards, state)
    if skipped:
        skipped(min(num_shards * BLOCK_DOCUMENTS, total))
    return num_shards


def _shards(order: TextOrder, searched: Sequence[Searched], first: int) -> Iterator[list[str]]:
    corpora = [data_set.corpus for data_set in searched]
    for start in range(first * BLOCK_DOCUMENTS, len(order), BLOCK_DOCUMENTS):
        yield order.texts(corpora, start, start + BLOCK_DOCUMENTS)


class _Stream:
    """One data set's share of a pass: its documents in the order of their texts, its search, its norms."""

    def __init__(self, searched: Searched, query_QH: FloatMatrix, text_N: Indices, device: str, budget: int) -> None:
        self._searched = searched
        self._query_QH = query_QH
        self._position_N = np.argsort(text_N, kind="stable")
        self._text_N = text_N[self._position_N]
        place_N = np.empty_like(self._position_N)
        place_N[self._position_N] = np.arange(len(place_N))
        self._searcher = Searcher(
            query_QH,
            searched.k,
            tie_rank_N=tie_ranks(searched.corpus["id"])[self._position_N],
            gammas_d=searched.gammas_d,
            excluded=[place_N[list(positions)].tolist() for positions in searched.queries.excluded],
            memory_budget_bytes=budget,
            backend=fastest_backend(device),
        )
        self._norms: list[FloatMatrix] = [np.empty(0, dtype=np.float32)]

    def take(self, number: int, vector_DH: FloatMatrix) -> None:
        """Search the documents that have the texts of a shard, of which these are the raw embeddings."""
        some = self._of_shards(number, number + 1)
        row_D = self._text_N[some] - number * BLOCK_DOCUMENTS
        if not len(row_D):
            return
        if not np.array_equal(row_D, np.arange(len(vector_DH))):
            vector_DH = vector_DH[row_D]
        norm_D = norms(vector_DH)
        self._searcher.add(vector_DH)
        self._norms.append(norm_D)
        if self._searched.keep:
            self._searched.keep(number, self._position_N[some], vector_DH, norm_D)

    def state(self) -> StreamState:
        """All that a later process needs to go on from here."""
        return StreamState(keys=self._searcher.best_keys(), norm_D=np.concatenate(self._norms))

    def restore(self, num_shards: int, state: StreamState) -> None:
        """Go on from the state after `num_shards` shards."""
        self._searcher.restore(self._of_shards(0, num_shards).stop, state.keys)
        self._norms = [state.norm_D]

    def evaluated(self) -> Evaluated:
        """The result, when all shards were taken."""
        norm_N = np.empty(len(self._position_N), dtype=np.float32)
        norm_N[self._position_N] = np.concatenate(self._norms)
        return Evaluated(
            rankings={gamma_d: self._in_corpus(found) for gamma_d, found in self._searcher.rankings().items()},
            query_QH=self._query_QH,
            query_norm_Q=norms(self._query_QH),
            document_norm_N=norm_N,
        )

    def _of_shards(self, first: int, stop: int) -> slice:
        low, high = np.searchsorted(self._text_N, [first * BLOCK_DOCUMENTS, stop * BLOCK_DOCUMENTS])
        return slice(int(low), int(high))

    def _in_corpus(self, found: Rankings) -> Rankings:
        place_QK = found.document_QK
        position_QK = self._position_N[place_QK.clip(min=0)] if len(self._position_N) else place_QK
        return Rankings(document_QK=np.where(place_QK < 0, place_QK, position_QK), score_QK=found.score_QK)
