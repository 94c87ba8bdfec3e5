"""Operations done in order by one thread, off the caller's path; a failure is noted and never reaches the caller."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_RETRY_S, LAST_RETRY_S = 5.0, 300.0  # waits after failures double from the one to the other

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Operation:
    what: str
    run: Callable[[], None]
    recovers: bool


class Background:
    """A thread that works off a queue. After a failure it skips operations until one that recovers succeeds."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[_Operation | threading.Event | None] = queue.SimpleQueue()
        self._failure: str | None = None
        self._wait_s = 0.0
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """One line on the failure that operations are skipped for; None while all is well."""
        return self._failure

    def submit(self, what: str, run: Callable[[], None], *, recovers: bool = False) -> None:
        """Queue an operation. One that `recovers` is tried even after a failure, and ends the skipping."""
        self._queue.put(_Operation(what=what, run=run, recovers=recovers))

    def take_retry(self) -> bool:
        """Whether, after a failure, it is time to try again; True once for each wait, which doubles from try to try."""
        if self._failure is None or time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + self._wait_s
        return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued so far was tried; say whether that came within `timeout_s`."""
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Work off the queue and end the thread; say whether that came within `timeout_s`."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._failure = self._failure or f"still busy after {timeout_s:g} s"
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            elif self._failure is None or item.recovers:
                self._try(item)

    def _try(self, operation: _Operation) -> None:
        try:
            operation.run()
        except Exception as error:  # noqa: BLE001 - the one boundary: a mirror's failure must not end a trial
            first_line = str(error).partition("\n")[0][:300]
            self._failure = f"{operation.what}: {type(error).__name__}: {first_line}"
            self._wait_s = min(max(2 * self._wait_s, FIRST_RETRY_S), LAST_RETRY_S)
            self._retry_at = time.monotonic() + self._wait_s
            _log.exception("%s failed: behind until an operation that recovers succeeds", operation.what)
        else:
            self._failure, self._wait_s = None, 0.0
