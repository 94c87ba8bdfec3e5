"""Work as Ray tasks, each with its own request: probes, which hold what they ask for and nothing of a trial's."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray

from orchestrator.deaths import Whereabouts, reason_of_death, whereabouts
from orchestrator.events import Ended, Listener, Retried, Started
from orchestrator.interrupt import Interrupt
from orchestrator.patience import Patience
from orchestrator.requests import Request
from orchestrator.retries import Retries
from orchestrator.watching import RecordFailure
from results.layout import Status

_LOOK_EVERY_S = 0.5


class Tasks:
    """Tasks under way, watched by one thread, which tells how each began and ended.

    Args:
        function: what each runs; it records its own failure, and returns the status.
        arguments: of each task, by its key.
        request: what each is given.
        retries: counts the deaths of their processes.
        patience: how long they may wait for a place that no node offers.
        listener: told of each event.
        record_failure: writes the status of a task that could not do so itself.
        is_closed: whether to begin none any more; those that run may end.
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
        is_closed: Callable[[], bool],
    ) -> None:
        # Ray's own retries know no pause, and no limit where memory ran out. A task goes on once its first answer was
        # heard: one that died at once took it along otherwise, and with it where it had run.
        told_one_by_one = {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
        self._task = ray.remote(**request.options, max_retries=0, **told_one_by_one)(_tell_and_run)
        self._function = function
        self._arguments = arguments
        self._retries = retries
        self._patience = patience
        self._listener = listener
        self._record_failure = record_failure
        self._is_closed = is_closed
        self._given_up = threading.Event()
        self._waiting = list(arguments)  # for their first try, or for the next
        self._handed_out: dict[Any, str] = {}  # what Ray holds, running or waiting for its place -> key
        self._began: dict[str, Whereabouts] = {}  # of those that run
        self._never_begun: list[str] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="tasks", daemon=True)
        self._thread.start()

    def wait(self, interrupt: Interrupt) -> Sequence[str]:
        """Return when all have ended, or the run was interrupted: the keys of those that were not begun any more.

        Raises:
            BaseException: whatever ended the watching, such as a store that cannot be written.
        """
        while self._thread.is_alive() and not interrupt.asked:
            self._thread.join(timeout=0.2)
        self._given_up.set()
        self._thread.join()
        if self._error:
            raise self._error
        return tuple(self._never_begun)

    def _watch(self) -> None:
        try:
            while (self._handed_out or self._waiting) and not self._given_up.is_set():
                self._look()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, whatever it is
            self._error = error

    def _look(self) -> None:
        """Hand out what may begin, and hear what there is to hear within a moment."""
        if self._is_closed():
            self._begin_none_any_more()
        else:
            self._hand_out_those_ready()
        if not self._handed_out:
            self._given_up.wait(_LOOK_EVERY_S if self._waiting else 0)
            return
        told, _ = ray.wait(list(self._handed_out), timeout=_LOOK_EVERY_S)
        for answers in told:
            self._hear(answers)
        if reason := self._patience.ran_out():
            self._leave(reason)

    def _hand_out_those_ready(self) -> None:
        for key in [key for key in self._waiting if not self._retries.ready_in_s(key)]:
            self._waiting.remove(key)
            self._handed_out[self._task.remote(self._function, self._arguments[key])] = key

    def _begin_none_any_more(self) -> None:
        waiting_in_ray = [answers for answers, key in self._handed_out.items() if key not in self._began]
        for answers in waiting_in_ray:
            ray.cancel(answers)
            self._never_begun.append(self._handed_out.pop(answers))
        self._never_begun += self._waiting
        self._waiting = []

    def _hear(self, answers: Any) -> None:
        """Take the next of a task's two answers: where it runs, then how it ended."""
        key = self._handed_out[answers]
        try:
            answer = ray.get(next(answers))
        except ray.exceptions.RayTaskError as error:  # it records its own failures: this is one of ours
            status = self._record_failure(key, f"{type(error.cause).__name__}: {error.cause}")
        except ray.exceptions.RayError as error:
            self._hear_death(answers, error)
            return
        else:
            if isinstance(answer, Whereabouts):
                self._began[key] = answer
                self._listener(Started(key=key))
                return
            status = answer
        self._forget(answers)
        self._listener(Ended(key=key, status=status))

    def _hear_death(self, answers: Any, error: Exception) -> None:
        key = self._handed_out[answers]
        reason = reason_of_death(f"{type(error).__name__}: {error}", self._began.get(key))
        self._forget(answers)
        if self._retries.died(key):
            self._waiting.append(key)
            self._listener(Retried(key=key, reason=reason))
        else:
            self._listener(Ended(key=key, status=self._record_failure(key, reason)))

    def _forget(self, answers: Any) -> None:
        self._began.pop(self._handed_out.pop(answers), None)

    def _leave(self, reason: str) -> None:
        for answers in self._handed_out:
            ray.cancel(answers)
        for key in [*self._handed_out.values(), *self._waiting]:
            self._listener(Ended(key=key, status=self._record_failure(key, f"found no place: {reason}")))
        self._handed_out, self._waiting = {}, []


def _tell_and_run(function: Callable[..., Status], arguments: Sequence[Any]) -> Iterator[Whereabouts | Status]:
    """What runs in the task's process: it says where that is, so that a death there can be told from others."""
    yield whereabouts()
    yield function(*arguments)
