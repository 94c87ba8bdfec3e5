"""One pass over the passages of several data sets: each different text is encoded once and handed to every search.

Documents of a data set come in the order in which the pass meets their texts, which is its own order where it has no
text twice and shares none. Searches depend on no order, so this is told to nobody: positions in rankings, and norms,
are the corpus's own. Memory holds one shard of embeddings, and of each document some numbers.

A shard's embeddings depend on its texts alone (and threads and device), and its search on its embeddings alone. So
other processes may do some of the shards (`shard_queue.py`), in any order: the result is the same to the last bit.

Shapes: S data sets, Q queries, D documents of a shard, U different texts, H embedding size.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from search_spaces.specs import Precision
from trainers.arrays import FloatMatrix
from trainers.encoders.encode import Progress, encode, encode_shards
from trainers.encoders.encoder import Encoder
from trainers.evaluation.shard_queue import Helping, ShardFound, ShardQueue, nobody_helps
from trainers.evaluation.shared_texts import TextOrder
from trainers.evaluation.snapshots import NOT_KEPT, Snapshots
from trainers.evaluation.stream import Evaluated, Searched, Stream
from trainers.search import BLOCK_DOCUMENTS, MEMORY_BUDGET_BYTES
from trainers.search_budget import budget_of_each


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
    helping: Helping = nobody_helps,
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
        helping: who else may take shards of the pass.

    Raises:
        ValueError: embeddings are not finite, or the budget is too small.
    """
    query_SQH = [_encoded_queries(encoder, data_set, precision, progress) for data_set in searched]
    shards = Shards([data_set.corpus for data_set in searched], order, BLOCK_DOCUMENTS)
    streams = _streams(encoder, searched, shards, query_SQH, memory_budget_bytes)
    so_far = _Pass(streams, shards, progress)
    so_far.go_on(snapshots, skipped)
    queue = ShardQueue((n for n in range(len(shards)) if n not in so_far.done), shards.num_texts)
    with helping(query_SQH, queue):
        for number, vector_DH in _encoded(encoder, shards, queue, precision, progress):
            for stream in streams:
                stream.take(number, vector_DH)
            so_far.done.add(number)
            so_far.merge(queue.handed_in())
            snapshots.offer(so_far.done, lambda: [stream.state() for stream in streams])
    so_far.merge(queue.handed_in())
    return [stream.evaluated() for stream in streams]


class Shards:
    """The different texts of some corpora, in shards of `num_texts`, numbered from 0."""

    def __init__(self, corpora: Sequence[pa.Table], order: TextOrder, num_texts: int) -> None:
        self.order = order
        self.num_texts = num_texts
        self._corpora = corpora

    def __len__(self) -> int:
        return -(-len(self.order) // self.num_texts)

    def __getitem__(self, number: int) -> list[str]:
        """The texts of a shard."""
        return self.order.texts(self._corpora, number * self.num_texts, (number + 1) * self.num_texts)

    def size(self, number: int) -> int:
        """How many texts a shard has: the last may have fewer."""
        return min(self.num_texts, len(self.order) - number * self.num_texts)


class ShardSearch:
    """Single shards of a pass, for a process that helps another one with it.

    It remembers the best of all that it has done, so that of a later shard it need not look at what cannot win.
    """

    def __init__(
        self,
        encoder: Encoder,
        searched: Sequence[Searched],
        shards: Shards,
        query_SQH: Sequence[FloatMatrix],
        *,
        precision: Precision,
        memory_budget_bytes: int | None,
    ) -> None:
        """Take what the pass takes, and the raw queries that it has encoded."""
        self._encoder = encoder
        self._shards = shards
        self._precision = precision
        self._streams = _streams(encoder, searched, shards, query_SQH, memory_budget_bytes)

    def found(self, number: int) -> ShardFound:
        """Encode and search a shard."""
        vector_DH = encode(self._encoder, self._shards[number], "document", precision=self._precision)
        for stream in self._streams:
            stream.take(number, vector_DH)
        return ShardFound(number=number, states=[stream.state_of(number) for stream in self._streams])


class _Pass:
    """Which shards are done, and what they gave."""

    def __init__(self, streams: Sequence[Stream], shards: Shards, progress: Progress | None) -> None:
        self.done: set[int] = set()
        self._streams = streams
        self._shards = shards
        self._progress = progress

    def go_on(self, snapshots: Snapshots, skipped: Progress | None) -> None:
        """Bring the streams to where the last snapshot was made."""
        found = snapshots.last([stream.gammas_d for stream in self._streams])
        if found is None:
            return
        for stream, state in zip(self._streams, found.states, strict=True):
            stream.merge(found.shards, state)
        self.done.update(found.shards)
        if skipped:
            skipped(sum(map(self._shards.size, found.shards)))

    def merge(self, handed_in: Sequence[ShardFound]) -> None:
        """Take what helpers found."""
        for found in handed_in:
            for stream, state in zip(self._streams, found.states, strict=True):
                stream.merge([found.number], state)
            self.done.add(found.number)
            if self._progress:
                self._progress(self._shards.size(found.number))


def _encoded(
    encoder: Encoder, shards: Shards, queue: ShardQueue, precision: Precision, progress: Progress | None
) -> Iterator[tuple[int, FloatMatrix]]:
    """The shards that fall to this process, with their raw embeddings; the next may be read while one is encoded."""
    numbers: list[int] = []

    def texts() -> Iterator[list[str]]:
        for number in queue.own():
            numbers.append(number)
            yield shards[number]

    for vector_DH in encode_shards(encoder, texts(), "document", precision=precision, progress=progress):
        yield numbers.pop(0), vector_DH


def _encoded_queries(
    encoder: Encoder, searched: Searched, precision: Precision, progress: Progress | None
) -> FloatMatrix:
    with encoder.instructed(searched.instruction):
        return encode(encoder, searched.queries.texts, "query", precision=precision, progress=progress)


def _streams(
    encoder: Encoder,
    searched: Sequence[Searched],
    shards: Shards,
    query_SQH: Sequence[FloatMatrix],
    memory_budget_bytes: int | None,
) -> list[Stream]:
    budget = MEMORY_BUDGET_BYTES
    if memory_budget_bytes is not None:
        budget = budget_of_each(memory_budget_bytes, len(searched), encoder.hidden_size)
    device = next(encoder.parameters()).device.type
    return [
        Stream(data_set, query_QH, text_N, shard_texts=shards.num_texts, device=device, memory_budget_bytes=budget)
        for data_set, query_QH, text_N in zip(searched, query_SQH, shards.order.text_SN, strict=True)
    ]
