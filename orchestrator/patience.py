"""How long to wait for a place that no node of the cluster offers. Imports no framework."""

import time
from collections.abc import Callable, Sequence

from orchestrator.requests import Node, Request, lacking

_LOOK_EVERY_S = 2.0


class Patience:
    """Looks now and then whether the cluster has room at all for what waits; nodes may come, and go.

    Ray waits without end for what no node can hold (ray#24259).

    Args:
        request: what one process is given.
        num_processes: how many processes need their place at the same time.
        timeout_s: how long there may be no such place.
        nodes: what each living node has.
        say: told once, when a wait begins, what is lacking.
    """

    def __init__(
        self,
        request: Request,
        *,
        num_processes: int = 1,
        timeout_s: float,
        nodes: Callable[[], Sequence[Node]],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request = request
        self._num_processes = num_processes
        self._timeout_s = timeout_s
        self._nodes = nodes
        self._say = say
        self._clock = clock
        self._looked: float | None = None
        self._since: float | None = None  # since when there is no place
        self._lacking: str | None = None

    def ran_out(self) -> str | None:
        """What has been lacking for too long, in one line; None while there is a place or hope for one."""
        now = self._clock()
        if self._looked is None or now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            self._look(now)
        if self._since is None or now - self._since < self._timeout_s:
            return None
        return self._lacking

    def _look(self, now: float) -> None:
        self._lacking = lacking(self._nodes(), self._request, num_processes=self._num_processes)
        if self._lacking is None:
            self._since = None
        elif self._since is None:
            self._since = now
            if self._timeout_s:
                self._say(f"Waiting for at most {self._timeout_s:g} s: {self._lacking}")
