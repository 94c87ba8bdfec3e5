"""One pass over the passages of several data sets: each different text is encoded once and handed to every search.

Documents of a data set come in the order in which the pass meets their texts, which is its own order where it has no
text twice and shares none. Searches depend on no order, so this is told to nobody: positions in rankings, and norms,
are the corpus's own. Memory holds one shard of embeddings, and of each document some numbers.

A shard's embeddings depend on its texts alone (and threads and device), and its search on its embeddings alone. So
other processes may do some of the shards (`shard_queue.py`), in any order: the result is the same to the last bit.

Shapes: S data sets, Q queries, D documents of a shard, U different texts, H embedding size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from search_spaces.specs import Precision
from trainers.arrays import FloatMatrix
from trainers.encoders.encode import Progress, encode, encode_shards
from trainers.encoders.encoder import Encoder
from trainers.evaluation.corpus_order import corpus_orders
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.shard_queue import Helping, ShardFound, ShardQueue, nobody_helps
from trainers.evaluation.shared_texts import TextOrder
from trainers.evaluation.snapshots import NOT_KEPT, Snapshot, Snapshots, StreamState
from trainers.evaluation.stream import Evaluated, Searched, Stream
from trainers.search import BLOCK_DOCUMENTS, MEMORY_BUDGET_BYTES
from trainers.search_budget import budget_of_each


@dataclass(frozen=True, kw_only=True, eq=False)
class PassHooks:
    """How a pass speaks with whoever runs it.

    Attributes:
        snapshots: where the state after a shard is kept, from which an interrupted pass goes on to the same bits.
        start_anew: called before the first shard, where no snapshot is gone on from.
        meter: told how many texts are encoded, and how many were before the snapshot was made.
        helping: who else may take shards of the pass.
    """

    snapshots: Snapshots = NOT_KEPT
    start_anew: Callable[[], None] = lambda: None
    meter: EncodingMeter | None = None
    helping: Helping = nobody_helps


def search_corpora(
    encoder: Encoder,
    searched: Sequence[Searched],
    order: TextOrder,
    *,
    precision: Precision,
    memory_budget_bytes: int | None = None,
    hooks: PassHooks | None = None,
) -> list[Evaluated]:
    """Encode the queries of each data set, and every different passage once; search while the shards go by.

    Args:
        encoder: on the device that encodes.
        searched: the data sets, whose rankings are ready together.
        order: the `text_order` of their corpora.
        precision: of the encoder.
        memory_budget_bytes: what the searches and the shard that goes by may need together, beyond queries and
            rankings; None lets each search have MEMORY_BUDGET_BYTES. It changes no bit of the result.
        hooks: who wants to know, goes on and helps; by default nobody.

    Raises:
        ValueError: embeddings are not finite, or the budget is too small.
    """
    hooks = hooks or PassHooks()
    query_SQH = [_encoded_queries(encoder, data_set, precision, hooks.meter) for data_set in searched]
    shards = Shards([data_set.corpus for data_set in searched], order, BLOCK_DOCUMENTS)
    so_far = _Pass(_streams(encoder, searched, shards, query_SQH, memory_budget_bytes), shards, hooks)
    queue = ShardQueue((n for n in range(len(shards)) if n not in so_far.done), shards.num_texts)
    with hooks.helping(query_SQH, queue):
        for number, vector_DH in _encoded(encoder, shards, queue, precision, hooks.meter):
            so_far.take(number, vector_DH)
            so_far.merge(queue.handed_in())
            hooks.snapshots.offer(so_far.done, so_far.states)
    so_far.merge(queue.handed_in())
    return so_far.evaluated()


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

    def __init__(self, streams: Sequence[Stream], shards: Shards, hooks: PassHooks) -> None:
        """Bring the streams to where the last snapshot was made, if there is one for them."""
        self.done: set[int] = set()
        self._streams = streams
        self._shards = shards
        self._meter = hooks.meter
        left = hooks.snapshots.last([stream.gammas_d for stream in streams])
        if left is None:
            hooks.start_anew()
        else:
            self._go_on(left)

    def take(self, number: int, vector_DH: FloatMatrix) -> None:
        """Search a shard, of whose texts these are the raw embeddings."""
        for stream in self._streams:
            stream.take(number, vector_DH)
        self.done.add(number)

    def merge(self, handed_in: Sequence[ShardFound]) -> None:
        """Take what helpers found."""
        for found in handed_in:
            self._merge([found.number], found.states)
            if self._meter:
                self._meter(self._shards.size(found.number))

    def states(self) -> list[StreamState]:
        """What another pass can go on from."""
        return [stream.state() for stream in self._streams]

    def evaluated(self) -> list[Evaluated]:
        """The result, when all shards are done."""
        return [stream.evaluated() for stream in self._streams]

    def _go_on(self, left: Snapshot) -> None:
        self._merge(left.shards, left.states)
        if self._meter:
            self._meter.skip(sum(map(self._shards.size, left.shards)))

    def _merge(self, numbers: Sequence[int], states: Sequence[StreamState]) -> None:
        for stream, state in zip(self._streams, states, strict=True):
            stream.merge(numbers, state)
        self.done.update(numbers)


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
    orders = corpus_orders([data_set.corpus for data_set in searched], shards.order)
    return [
        Stream(data_set, query_QH, order, shard_texts=shards.num_texts, device=device, memory_budget_bytes=budget)
        for data_set, query_QH, order in zip(searched, query_SQH, orders, strict=True)
    ]
