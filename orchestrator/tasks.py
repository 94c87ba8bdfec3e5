"""Work as Ray tasks, each with its own request: probes, which hold what they ask for and nothing of a trial's."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from orchestrator.deaths import reason_of_death
from orchestrator.events import Ended, Listener, Retried, Started
from orchestrator.interrupt import Interrupt
from orchestrator.patience import Patience
from orchestrator.requests import Request
from orchestrator.retries import Retries
from orchestrator.watching import RecordFailure
from results.layout import Status

_LOOK_EVERY_S = 0.5


class Tasks:
    """Tasks under way, watched by one thread, which tells how each ended.

    Args:
        function: what each runs; it records its own failure, and returns the status.
        arguments: of each task, by its key.
        request: what each is given.
        retries: counts the deaths of their processes.
        patience: how long they may wait for a place that no node offers.
        listener: told of each event.
        record_failure: writes the status of a task that could not do so itself.
    """

    def __init__(
        self,
        function: Callable[..., Status],
        arguments: Mapping[str, Sequence[Any]],
        *,
        request: Request,
        retries: Retries,
        patience: Patience,
        listener: Listener,
        record_failure: RecordFailure,
    ) -> None:
        # Ray's own retries know no pause, and no limit where memory ran out.
        self._task = ray.remote(**request.options, max_retries=0)(function)
        self._arguments = arguments
        self._retries = retries
        self._patience = patience
        self._listener = listener
        self._record_failure = record_failure
        self._given_up = threading.Event()
        self._refs: dict[Any, str] = {}
        self._waiting = list(arguments)  # for their first try, or for the next
        self._start_those_ready()
        self._thread = threading.Thread(target=self._watch, name="tasks", daemon=True)
        self._thread.start()

    def wait(self, interrupt: Interrupt) -> None:
        """Return when all have ended, or the run was interrupted."""
        while self._thread.is_alive() and not interrupt.asked:
            self._thread.join(timeout=0.2)
        self._given_up.set()
        self._thread.join()

    def _start_those_ready(self) -> None:
        for key in [key for key in self._waiting if not self._retries.ready_in_s(key)]:
            self._waiting.remove(key)
            self._refs[self._task.remote(*self._arguments[key])] = key
            self._listener(Started(key=key))

    def _watch(self) -> None:
        while (self._refs or self._waiting) and not self._given_up.is_set():
            self._start_those_ready()
            done, _ = ray.wait(list(self._refs), timeout=_LOOK_EVERY_S) if self._refs else ([], [])
            if not self._refs:
                self._given_up.wait(_LOOK_EVERY_S)
            for ref in done:
                self._end(ref, self._refs.pop(ref))
            if reason := self._patience.ran_out():
                self._leave(reason)

    def _end(self, ref: Any, key: str) -> None:
        try:
            status = ray.get(ref)
        except ray.exceptions.RayTaskError as error:  # it records its own failures: this is one of ours
            status = self._record_failure(key, f"{type(error.cause).__name__}: {error.cause}")
        except ray.exceptions.RayError as error:
            reason = reason_of_death(f"{type(error).__name__}: {error}", None)
            if self._retries.died(key):
                self._waiting.append(key)
                self._listener(Retried(key=key, reason=reason))
                return
            status = self._record_failure(key, reason)
        self._listener(Ended(key=key, status=status))

    def _leave(self, reason: str) -> None:
        for ref in self._refs:
            ray.cancel(ref)
        for key in [*self._refs.values(), *self._waiting]:
            self._listener(Ended(key=key, status=self._record_failure(key, f"found no place: {reason}")))
        self._refs, self._waiting = {}, []
