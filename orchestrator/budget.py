"""What a sweep may spend, and what it has spent. Imports no framework."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import TypeAdapter

from orchestrator.events import Ended, Event, Planned, Retried, Started
from results.store import Store
from search_spaces.records import read_json

SPENT = "spent.json"
_KEEP_EVERY_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When to start nothing more; None for no limit. What is under way ends.

    Attributes:
        trials: how many are trained, in all runs together.
        gpu_hours: of all trials and probes in all runs together; a share of a GPU counts as that share.
        wall_hours: of one run.
    """

    trials: int | None = None
    gpu_hours: float | None = None
    wall_hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What earlier runs of the sweep spent."""

    gpu_s: float = 0.0


_SPENT = TypeAdapter(Spent)


def read_spent(store: Store) -> Spent:
    """What the sweep folder says of earlier runs."""
    return read_json(_SPENT, store.read(SPENT), SPENT) if store.exists(SPENT) else Spent()


def write_spent(store: Store, spent: Spent) -> None:
    """Keep it for later runs."""
    store.write(SPENT, _SPENT.dump_json(spent, indent=2) + b"\n")


def affordable(to_train: Sequence[str], *, num_trained: int, budget: Budget) -> Sequence[str]:
    """The first of the trials that are left to train, as many as the budget still has."""
    return to_train if budget.trials is None else to_train[: max(0, budget.trials - num_trained)]


class Spending:
    """Follows a run's events and says when its budget is spent. Safe to call from several threads.

    Args:
        budget: what may be spent.
        before: what earlier runs spent.
        gpus: how many each trial or probe holds while it runs, by its key.
        keep: told what is spent whenever something ends, and now and then while GPUs are held; one call at a time.
        gpus_of_search: how many a sample of a search, or a trial that a search leads to, holds while it runs.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        before: Spent,
        gpus: Mapping[str, float],
        keep: Callable[[Spent], None],
        gpus_of_search: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._before = before
        self._gpus = dict(gpus)
        self._gpus_of_search = gpus_of_search
        self._keep = keep
        self._clock = clock
        self._begun = clock()
        self._gpu_s = 0.0
        self._running: dict[str, float] = {}  # key -> when its try began
        self._counting = threading.Lock()
        self._writing = threading.Lock()  # held over a write, so that an older sum never replaces a newer one

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        with self._counting:
            has_changed = self._count(event)
        if has_changed:
            self.write_down()

    def _count(self, event: Event) -> bool:
        """Whether what ended held GPUs."""
        if isinstance(event, Planned):
            self._gpus[event.key] = self._gpus_of_search
        elif isinstance(event, Started):
            self._running[event.key] = self._clock()
        elif isinstance(event, Retried | Ended):
            began = self._running.pop(event.key, None)
            held_s = 0.0 if began is None else self._clock() - began
            if isinstance(event, Ended):  # a trial on several devices is told of as started while it waits for them
                # Both times of the record are cut to whole seconds.
                held_s = held_s if event.ran_s is None else min(held_s, event.ran_s + 1.0)
            gpus = self._gpus.get(event.key, 0)
            self._gpu_s += held_s * gpus
            return gpus > 0
        return False

    def spent(self) -> Spent:
        """What this run and those before it spent by now, what runs counted."""
        with self._counting:
            now = self._clock()
            running = sum((now - began) * self._gpus.get(key, 0) for key, began in self._running.items())
            return Spent(gpu_s=self._before.gpu_s + self._gpu_s + running)

    def reason(self) -> str | None:
        """What is spent, in one line; None while something is left."""
        budget = self._budget
        if budget.gpu_hours is not None and self.spent().gpu_s >= budget.gpu_hours * 3600:
            return f"the budget of {budget.gpu_hours:g} GPU-hours is spent (budget.gpu_hours)"
        if budget.wall_hours is not None and self._clock() - self._begun >= budget.wall_hours * 3600:
            return f"this run's budget of {budget.wall_hours:g} hours is spent (budget.wall_hours)"
        return None

    def write_down(self) -> None:
        """Have kept what is spent by now."""
        with self._writing:
            self._keep(self.spent())

    @contextmanager
    def written_down(self, *, every_s: float = _KEEP_EVERY_S) -> Iterator[None]:
        """While the block runs, have what is spent kept so often, and at its end: what is interrupted counts too.

        A driver that is killed loses what was spent since the last time.
        """
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(every_s):
                if self._holds_gpus():
                    self.write_down()

        thread = threading.Thread(target=watch, name="spending", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            if self._holds_gpus():
                self.write_down()

    def _holds_gpus(self) -> bool:
        with self._counting:
            return any(self._gpus.get(key, 0) for key in self._running)
