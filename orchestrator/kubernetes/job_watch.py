"""Every state of a RayJob as it comes, over cut connections and an API server that is away for a while."""

import threading
from collections.abc import Callable, Iterator
from queue import Empty, Queue

from orchestrator.kubernetes.api import Api, AwayError, ForbiddenError, GoneError, Object
from search_spaces.problems import InputError

_WATCH_FOR_S = 120  # the server ends a watch after so long, and it is asked again
_MOST_FORBIDDEN = 8
_WAITS_S = (1.0, 2.0, 4.0, 8.0, 15.0)

Seen = Object | None


def states(api: Api, name: str, *, say: Callable[[str], None], wait: Callable[[float], object]) -> Iterator[Seen]:
    """The RayJob as it is, and each change of it; None once it is gone, and the end.

    After a cut it is read anew, so that of several changes in between only the last is seen, but none is missed that
    lasts. Raises InputError where one may not look.
    """
    num_fails = 0
    while True:
        try:
            there = api.get("RayJob", name)
            if num_fails:
                say("the API server answers again")
                num_fails = 0
            yield there
            if there is None:
                return
            for changed in api.watch("RayJob", name, there["metadata"]["resourceVersion"], for_s=_WATCH_FOR_S):
                yield changed
                if changed is None:
                    return
        except GoneError:
            continue
        except (AwayError, ForbiddenError) as away:
            # One that has just started does not know all roles yet.
            if isinstance(away, ForbiddenError) and not 0 < num_fails < _MOST_FORBIDDEN:
                raise
            if not num_fails:
                say(f"{away}; the sweep goes on, and so does this as soon as it answers")
            wait(_WAITS_S[min(num_fails, len(_WAITS_S) - 1)])
            num_fails += 1


class JobWatch:
    """`states` in a thread, so that whoever waits for the next one can do something else meanwhile."""

    def __init__(self, api: Api, name: str, say: Callable[[str], None]) -> None:
        self._queue: Queue[Seen | InputError] = Queue()
        self._ended = threading.Event()
        self._states = states(api, name, say=say, wait=self._ended.wait)
        threading.Thread(target=self._watch, name="rayjob", daemon=True).start()

    def next(self, timeout_s: float) -> Seen:
        """The next state; None once it is gone.

        Raises:
            TimeoutError: nothing came for so long.
            InputError: one may not look.
        """
        try:
            seen = self._queue.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError from None
        if isinstance(seen, InputError):
            raise seen
        return seen

    def close(self) -> None:
        """Watch no more."""
        self._ended.set()

    def _watch(self) -> None:
        try:
            for seen in self._states:
                if self._ended.is_set():
                    return
                self._queue.put(seen)
        except InputError as refused:
            self._queue.put(refused)
