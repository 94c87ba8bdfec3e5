"""Ctrl-C: once stops cleanly, twice stops at once. SIGTERM counts as the first."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def interruptible(on_first: Callable[[], None], on_second: Callable[[], None]) -> Iterator[Interrupt]:
    """Catch SIGINT and SIGTERM while the block runs: the first sets `asked`, a second SIGINT calls `on_second`.

    Which should end the process: the block may be anywhere, and what it waits for may not come.
    """
    interrupt = Interrupt()

    def handle(number: int, frame: FrameType | None) -> None:
        if interrupt.asked and number == signal.SIGINT:
            on_second()
        if not interrupt.asked:
            interrupt.asked = True
            on_first()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
