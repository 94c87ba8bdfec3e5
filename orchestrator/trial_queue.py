"""Which trial Tune runs next: a searcher that hands out what is left, what searches draw, and again what died."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ray.tune.search import Searcher

from orchestrator.retries import Retries


class Source(Protocol):
    """Where more trials come from while others run: the studies of a sweep."""

    @property
    def is_over(self) -> bool:
        """Whether no more come, unless a trial that runs brings them."""

    def next_key(self) -> str | None:
        """A trial to run now, if there is one."""

    def stopped(self, key: str) -> None:
        """A trial has ended, as Tune or it itself decided."""


class NoSource:
    """Nothing but the trials that are known from the start."""

    is_over = True

    def next_key(self) -> str | None:
        """None."""
        return None

    def stopped(self, key: str) -> None:
        """Nobody waits for it."""


class TrialQueue(Searcher):
    """Hands out trials by their keys, at most `at_once` together, until all have ended or `is_closed` says so.

    What a source has goes first: other trials wait for nothing, and what it has later waits for these.

    Tune's own list of trials would hold all of them from the start, and would try those that died again at once, in
    the place that a healthy one could have.

    Args:
        keys: the trials, in their order.
        config: what each is given besides its key.
        retries: when a trial that died may be handed out again.
        at_once: how many run together; None for as many as fit.
        is_closed: whether to hand out no more.
        source: where more come from.
        waits_for: trial -> the one that is to end first, where it is among those that are left.
    """

    def __init__(
        self,
        keys: Sequence[str],
        *,
        config: Mapping[str, Any],
        retries: Retries,
        at_once: int | None,
        is_closed: Callable[[], bool],
        source: Source | None = None,
        waits_for: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._waiting = deque(keys)
        self._config = dict(config)
        self._retries = retries
        self._at_once = at_once
        self._is_closed = is_closed
        self._source: Source = source or NoSource()
        self._waits_for = dict(waits_for or {})
        self._open = set(keys)  # those that have not ended for good
        self._out: dict[str, str] = {}  # Tune's id of a trial -> key

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial; None where there is none at this moment, FINISHED where there will be none."""
        if self._is_closed():
            return Searcher.FINISHED
        if self._at_once is not None and len(self._out) >= self._at_once:
            return None
        key = self._source.next_key() or self._next_waiting()
        if key is None:
            is_over = self._source.is_over and not (self._waiting or self._out)
            return Searcher.FINISHED if is_over else None
        self._out[trial_id] = key
        return {**self._config, "trial_id": key}

    def _next_waiting(self) -> str | None:
        key = next((key for key in self._waiting if self._is_ready(key)), None)
        if key is not None:
            self._waiting.remove(key)
        return key

    def _is_ready(self, key: str) -> bool:
        return self._waits_for.get(key) not in self._open and not self._retries.ready_in_s(key)

    def again(self, key: str) -> None:
        """Hand a trial out once more, when its pause is over. To be called before Tune hears that it ended."""
        self._waiting.append(key)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial ended, as it should or not."""
        key = self._out.pop(trial_id, None)
        if key is not None and key not in self._waiting:
            self._open.discard(key)
        if key is not None and not error:  # what died comes again
            self._source.stopped(key)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Nothing is learned from what a trial reports."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """There is no space to search."""
        return True

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the sweep folder says what is left."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as `save`."""
