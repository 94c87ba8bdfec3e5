"""How often a trial whose process died is tried again, and after which pause. Imports no framework."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_FIRST_PAUSE_S = 1.0
_GROWTH = 4.0  # 1, 4, 16, 60, 60, ... seconds
_LONGEST_PAUSE_S = 60.0


@dataclass(kw_only=True)
class _Deaths:
    """The deaths of one trial's processes since it last got further than any before."""

    number: int = 0
    step: int = 0  # the last one that was told when the process died
    further: int = 0  # the last one that was told at all


@dataclass(kw_only=True)
class Retries:
    """Counts deaths. `limit` is how many tries follow the first; a try that got further than all before counts anew.

    On machines that are taken away every hour a training of a day is then none that fails: it only takes longer.
    """

    limit: int
    clock: Callable[[], float] = time.monotonic
    _deaths: dict[str, _Deaths] = field(default_factory=dict)
    _ready: dict[str, float] = field(default_factory=dict)

    def stepped(self, key: str, step: int) -> None:
        """A trial told of an optimiser step."""
        deaths = self._deaths.setdefault(key, _Deaths())
        deaths.further = max(deaths.further, step)

    def died(self, key: str) -> bool:
        """Note that a trial's process died; say whether it is to be tried again."""
        deaths = self._deaths.setdefault(key, _Deaths())
        got_further = deaths.number > 0 and deaths.further > deaths.step
        deaths.number = 1 if got_further else deaths.number + 1
        deaths.step = deaths.further
        if deaths.number > self.limit:
            return False
        self._ready[key] = self.clock() + pause_s(deaths.number)
        return True

    def ready_in_s(self, key: str) -> float:
        """Seconds until the trial may be tried again, 0 when it may."""
        return max(0.0, self._ready.get(key, 0.0) - self.clock())


def pause_s(deaths: int) -> float:
    """The pause after so many deaths in a row."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * _GROWTH ** (deaths - 1))
