"""What the driver of a sweep prints, of its pods while they are there."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator.kubernetes.api import Api, AwayError, ForbiddenError, Object
from orchestrator.kubernetes.job_state import state_of
from orchestrator.kubernetes.job_view import pods_of
from search_spaces.problems import InputError

SUBMITTER_CONTAINER = "ray-job-submitter"
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """A container that shows the driver's output: the submitter's, which follows Ray's job."""

    pod: str
    uid: str
    container: str
    num_restarts: int
    has_begun: bool
    has_ended: bool


def log_sources(api: Api, rayjob: Object) -> list[LogSource]:
    """The submitters of a RayJob, in the order in which they began: one for each try."""
    pods = sorted(pods_of(api, state_of(rayjob)), key=lambda pod: pod["metadata"].get("creationTimestamp", ""))
    return [source for pod in pods if (source := _source(pod)) is not None]


def read_log(api: Api, source: LogSource) -> Iterator[str]:
    """The lines that there are."""
    return api.log(source.pod, source.container, follow=False)


class LogFollower:
    """Hands on each line that the driver prints, over new tries and cut connections; in a thread."""

    def __init__(self, api: Api, rayjob: Object, *, line: Callable[[str], None], say: Callable[[str], None]) -> None:
        self._api, self._rayjob, self._line, self._say = api, rayjob, line, say
        self._ended = threading.Event()
        self._is_drained = threading.Event()
        self._num_read: dict[tuple[str, int], int] = {}
        self._done: set[tuple[str, int]] = set()
        self.has_read_to_an_end = False
        self._thread = threading.Thread(target=self._follow, name="driver log", daemon=True)
        self._thread.start()

    def update(self, rayjob: Object) -> None:
        """Take note of how the RayJob stands: with a new try there are new pods."""
        self._rayjob = rayjob

    def finish(self, timeout_s: float) -> bool:
        """Read what is left, for so long at most; whether all was read of a driver that ended."""
        self._ended.set()
        self._is_drained.wait(timeout_s)
        return self.has_read_to_an_end

    def _follow(self) -> None:
        try:
            while not self._ended.is_set():
                self._read_on()
                self._ended.wait(_LOOK_EVERY_S)
            self._read_on()  # what was printed since
        except ForbiddenError as refused:
            self._say(f"the driver's output is not shown: {refused}")
        finally:
            self._is_drained.set()

    def _read_on(self) -> None:
        try:
            sources = [source for source in log_sources(self._api, self._rayjob) if source.has_begun]
            for source in sources:
                if (source.uid, source.num_restarts) not in self._done:
                    self._read(source)
            if sources:
                self.has_read_to_an_end = (sources[-1].uid, sources[-1].num_restarts) in self._done
        except AwayError:  # whoever watches the RayJob says so
            return
        except ForbiddenError:
            if not self._num_read:  # else the API server has just started, and does not know all roles yet
                raise
        except InputError:  # its pods went while it was read, or do not run yet
            return

    def _read(self, source: LogSource) -> None:
        """Follow it to its end. What was read before a cut is skipped: its lines do not change."""
        key = (source.uid, source.num_restarts)
        num_known = self._num_read.get(key, 0)
        for number, line in enumerate(self._api.log(source.pod, source.container, follow=True)):
            if number >= num_known:
                self._num_read[key] = number + 1
                self._line(line)
        if source.has_ended:  # else the connection ended, and it is looked at again
            self._done.add(key)


def _source(pod: Object) -> LogSource | None:
    names = [container["name"] for container in pod["spec"]["containers"]]
    if SUBMITTER_CONTAINER not in names:
        return None
    statuses = pod.get("status", {}).get("containerStatuses") or []
    status: Object = next((one for one in statuses if one["name"] == SUBMITTER_CONTAINER), {})
    state = status.get("state") or {}
    return LogSource(
        pod=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        container=SUBMITTER_CONTAINER,
        num_restarts=status.get("restartCount", 0),
        has_begun="running" in state or "terminated" in state,
        has_ended="terminated" in state,
    )
