"""How far an encoding is and how long it takes yet, in one line for people, at a bounded rate."""

import time
from collections.abc import Callable
from datetime import timedelta

SAY_EVERY_S = 10.0


class EncodingMeter:
    """Takes how many more texts are done, and says now and then how many that makes, their speed and what is left."""

    def __init__(
        self,
        name: str,
        num_texts: int,
        say: Callable[[str], None],
        *,
        every_s: float = SAY_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock; `num_texts` are all that will be done."""
        self._name = name
        self._num_texts = num_texts
        self._say = say
        self._every_s = every_s
        self._clock = clock
        self._started = self._said = clock()
        self._done = self._done_before = 0

    def __call__(self, more_texts: int) -> None:
        """So many more texts are encoded."""
        self._done += more_texts
        now = self._clock()
        if now - self._said >= self._every_s:
            self._said = now
            self._say(self._line(now))

    def skip(self, num_texts: int) -> None:
        """So many more texts were encoded before the clock was started: they are done, and tell of no speed."""
        self._done += num_texts
        self._done_before += num_texts

    def _line(self, now: float) -> str:
        texts_per_s = (self._done - self._done_before) / max(now - self._started, 1e-9)
        line = f"{self._name}: {self._done:,} of {self._num_texts:,} texts encoded, {texts_per_s:,.1f} texts/s"
        if texts_per_s <= 0 or self._done >= self._num_texts:
            return line
        left_s = round((self._num_texts - self._done) / texts_per_s)
        return f"{line}, ETA {timedelta(seconds=left_s)}"
