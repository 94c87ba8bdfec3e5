"""The shards of a pass: which are left, which another process is at, and what it found. Knows nobody who helps.

The pass takes shards from the front, whoever helps it from the back. A shard that a helper has is either handed in or
given back, however the helper ends; so nothing is lost but time.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from trainers.arrays import FloatMatrix
from trainers.evaluation.evaluations import Wanted
from trainers.evaluation.snapshots import StreamState


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardFound:
    """What a helper found in one shard of a pass, for each of its data sets."""

    number: int
    states: Sequence[StreamState]


class ShardQueue:
    """The shards of one pass, each of `shard_texts` texts. Its methods may be called from several threads."""

    def __init__(self, numbers: Iterable[int], shard_texts: int) -> None:
        self.shard_texts = shard_texts
        self._left = deque(sorted(numbers))
        self._helped: set[int] = set()
        self._found: list[ShardFound] = []
        self._changed = threading.Condition()

    @property
    def num_left(self) -> int:
        """How many shards nobody is at."""
        return len(self._left)

    def own(self) -> Iterator[int]:
        """The shards that fall to the pass itself. When none is left, waits for those that helpers are at."""
        while (number := self._next()) is not None:
            yield number

    def take(self) -> int | None:
        """A shard for a helper, to be handed in or given back; None where none is left."""
        with self._changed:
            if not self._left:
                return None
            number = self._left.pop()
            self._helped.add(number)
            return number

    def give_back(self, number: int) -> None:
        """A helper does not do this one after all."""
        with self._changed:
            self._helped.remove(number)
            self._left.append(number)
            self._changed.notify_all()

    def hand_in(self, found: ShardFound) -> None:
        """A helper has done the one that it took."""
        with self._changed:
            self._helped.remove(found.number)
            self._found.append(found)
            self._changed.notify_all()

    def handed_in(self) -> list[ShardFound]:
        """What was handed in since this was asked last."""
        with self._changed:
            found, self._found = self._found, []
            return found

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._left or not self._helped)
            return self._left.popleft() if self._left else None


class Helpers(Protocol):
    """Other processes that may take part in a pass."""

    def helping(
        self, wanted: Wanted, order: str, query_SQH: Sequence[FloatMatrix], queue: ShardQueue
    ) -> AbstractContextManager[None]:
        """While it is entered, whoever can help takes shards of the queue.

        Args:
            wanted: what the pass is for: a helper loads the same data sets in the same order.
            order: the digest of the order of rows by which the pass counts; a helper whose data sets have another one
                can do no shard of it.
            query_SQH: the raw queries of each of them.
            queue: when the context is left, no shard of it is at a helper.
        """


class _Nobody:
    def helping(
        self, wanted: Wanted, order: str, query_SQH: Sequence[FloatMatrix], queue: ShardQueue
    ) -> AbstractContextManager[None]:
        """The pass is alone."""
        return nullcontext()


NOBODY: Helpers = _Nobody()
Helping = Callable[[Sequence[FloatMatrix], ShardQueue], AbstractContextManager[None]]  # of one pass


def nobody_helps(query_SQH: Sequence[FloatMatrix], queue: ShardQueue) -> AbstractContextManager[None]:
    """The pass is alone."""
    return nullcontext()
