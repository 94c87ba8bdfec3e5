"""Whether there is room for what is written: a full disk, a quota of the system, or the sweep's own."""

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass

from search_spaces.shown_sizes import shown_size

WAITING = "waiting for space"  # what a trial says of itself begins so, while it waits
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
# Libraries in other languages tell it in words: safetensors raises an error of its own, with the system's text.
_WORDS = ("No space left on device", "Disk quota exceeded", "disk is full")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a sweep's checkpoints may take, and how long a trial waits for space before it fails; None: no limit."""

    quota_bytes: int | None = None
    wait_s: float | None = None


class QuotaError(OSError):
    """The sweep's own quota leaves no room."""

    def __init__(self, *, used: int, needed: int, quota: int) -> None:
        super().__init__(
            errno.EDQUOT,
            f"checkpoints take {shown_size(used)}, {shown_size(needed)} more would exceed "
            f"checkpoints.quota of {shown_size(quota)}",
        )


class OutOfSpaceError(OSError):
    """There was no room for as long as a trial was to wait."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOSPC, message)

    def __str__(self) -> str:
        return str(self.strerror)


def is_out_of_space(error: BaseException) -> bool:
    """Whether this, or what it came from, is for want of space."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _ERRNOS:
            return True
        if any(words in str(cause) for words in _WORDS):
            return True
        cause = cause.__cause__
    return False


class Waiting:
    """The wait for space of one process: with back-off, told to `say`, and given up after `wait_s` in a row."""

    def __init__(self, wait_s: float | None, say: Callable[[str], None]) -> None:
        self._wait_s = wait_s
        self._say = say
        self._began: float | None = None
        self._next_s = _FIRST_WAIT_S

    def wait(self, error: BaseException) -> None:
        """Wait a while for space that `error` says is lacking.

        Raises:
            OutOfSpaceError: it has lacked for too long, here or in an earlier wait that nothing came after.
        """
        now = time.monotonic()
        if self._began is None:
            self._began, self._next_s = now, _FIRST_WAIT_S
        left = float("inf") if self._wait_s is None else self._wait_s - (now - self._began)
        if left <= 0:
            waited = f"after {now - self._began:.0f} s of waiting" if self._wait_s else "and none is waited for"
            raise OutOfSpaceError(f"no space {waited} ({_words(error)})") from error
        self._say(f"{WAITING}: {_words(error)}")
        time.sleep(min(self._next_s, left))
        self._next_s = min(2 * self._next_s, _LONGEST_WAIT_S)

    def is_over(self) -> None:
        """Something was written."""
        if self._began is not None:
            self._began = None
            self._say("going on: there is space again")


def _words(error: BaseException) -> str:
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
