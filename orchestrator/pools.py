"""Build a sweep's pools on Ray, before its trials: a task for each starting encoder, then one for each pool."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.events import Ended, EnteredPhase, Event, Listener, Retried, Started
from orchestrator.patience import Patience
from orchestrator.pool_costs import reading_keys
from orchestrator.requests import Request
from orchestrator.retries import Retries
from orchestrator.tasks import Tasks
from results.clock import utc_now
from results.layout import Status, pool_prefix, spec_key
from results.store import open_store
from search_spaces.specs import EvaluationSpec, from_json

if TYPE_CHECKING:
    from orchestrator.placing import Driver, Work


def build_pools(work: "Work", driver: "Driver", patience: Callable[[Request], Patience]) -> str | None:
    """Return when the pools that `work` names are built, or the run was interrupted; why they could not be, in a line.

    A pool that is not there fails every evaluation on it, so that no trial is worth starting then. What is built of it
    is kept for the next run, also where the budget is spent on the way. `patience` says how long a request may wait
    for its place.
    """
    if not work.pools or driver.spent():
        return None
    building = _Building(work, driver, patience)
    reason = building.read()
    if reason:
        for key in work.pools:
            driver.listener(Ended(key=key, status=_failed(key, reason), worked_s=building.read_s.seconds))
    elif not driver.is_closed():
        reason = building.put_together()
    if reason is None or driver.interrupt.asked:
        return None
    return f"no trial was started, since a pool cannot be built: {reason}"


@dataclass
class Worked:
    """How long at least one of several tasks ran; what waits for its place is not worked at."""

    clock: Callable[[], float] = time.monotonic
    seconds: float = 0.0
    _num_running: int = 0
    _since: float = 0.0

    def __call__(self, event: Event) -> None:
        """Take note of an event of one of the tasks."""
        if isinstance(event, Started):
            self._since = self._since if self._num_running else self.clock()
            self._num_running += 1
        elif isinstance(event, Ended | Retried) and self._num_running:
            self._num_running -= 1
            self.seconds += 0.0 if self._num_running else self.clock() - self._since


@dataclass(frozen=True)
class _Building:
    """The two steps, each of several tasks at once; both return why a task failed, in a line."""

    work: "Work"
    driver: "Driver"
    patience: Callable[[Request], Patience]
    read_s: Worked = field(default_factory=Worked)
    told: set[str] = field(default_factory=set)  # pools of which it was told that they are begun

    def read(self) -> str | None:
        """Let every starting encoder read the corpora."""
        work, listener = self.work, self.driver.listener
        store = open_store(work.store_uri)
        keys = reading_keys(
            from_json(EvaluationSpec, store.read(spec_key(pool_prefix(pool)))) for pool in self.work.pools
        )
        num_done = 0

        def hear(event: Event) -> None:
            nonlocal num_done
            self.read_s(event)
            if isinstance(event, Started):
                self._tell_begun(work.pools)
            listener(event)
            if isinstance(event, Retried):
                self.driver.say(f"{event.key} of the pools: will be tried again ({event.reason})")
            if isinstance(event, Ended) and event.status.state == "finished":
                num_done += 1
                phase = f"{num_done} of {len(keys)} starting encoders have read the corpus"
                for pool in work.pools:
                    listener(EnteredPhase(key=pool, phase=phase))

        arguments = {key: (work.store_uri, tuple(work.pools), index, work.lock_token) for index, key in enumerate(keys)}
        return self._run(_pool_parts, arguments, work.single, hear)

    def put_together(self) -> str | None:
        """Make each pool of its parts, which takes no GPU."""
        work, listener = self.work, self.driver.listener
        for pool in work.pools:
            listener(EnteredPhase(key=pool, phase="putting together"))

        def hear(event: Event) -> None:
            if isinstance(event, Started):
                self._tell_begun([event.key])
            elif isinstance(event, Ended):
                put_together_s = event.ran_s or 0.0
                listener(replace(event, worked_s=self.read_s.seconds + put_together_s))
            else:
                listener(event)

        arguments = {pool: (work.store_uri, pool, work.lock_token) for pool in work.pools}
        return self._run(_pool, arguments, replace(work.single, gpus=0, accelerator_type=None), hear)

    def _tell_begun(self, pools: Iterable[str]) -> None:
        """Once of each pool: when its first task has found its place."""
        for key in pools:
            if key not in self.told:
                self.told.add(key)
                self.driver.listener(Started(key=key))

    def _run(
        self,
        function: Callable[..., Status],
        arguments: Mapping[str, Sequence[Any]],
        request: Request,
        listener: Listener,
    ) -> str | None:
        reasons: list[str | None] = []

        def hear(event: Event) -> None:
            listener(event)
            if isinstance(event, Ended) and event.status.state == "failed":
                reasons.append(event.status.reason)

        for some in self._at_once(arguments):
            tasks = Tasks(
                function,
                some,
                request=request,
                retries=Retries(limit=self.work.resources.retries),
                patience=self.patience(request),
                listener=hear,
                record_failure=_failed,
                is_closed=self.driver.is_closed,
            )
            tasks.wait(self.driver.interrupt)
            if reasons or self.driver.is_closed():
                break
        return (reasons[0] or "no reason known") if reasons else None

    def _at_once(self, arguments: Mapping[str, Sequence[Any]]) -> Iterator[Mapping[str, Sequence[Any]]]:
        """So many as may run together: on a machine of our own Ray has CPUs for no more, on a cluster it may have."""
        at_once = self.work.resources.at_once if self.work.cluster.address else None
        items = list(arguments.items())
        step = at_once or max(1, len(items))
        for start in range(0, len(items), step):
            yield dict(items[start : start + step])


def _failed(_: str, reason: str) -> Status:
    """Pools have no status of their own: their documents are there, or not."""
    now = utc_now()
    return Status(state="failed", started_at=now, finished_at=now, reason=reason)


def _pool_parts(store_uri: str, keys: Sequence[str], index: int, lock_token: int) -> Status:
    from orchestrator.worker import run_placed_pool_parts

    return run_placed_pool_parts(store_uri, keys, index, lock_token)


def _pool(store_uri: str, key: str, lock_token: int) -> Status:
    from orchestrator.worker import run_placed_pool

    return run_placed_pool(store_uri, key, lock_token)
