"""Follow a RayJob to its end: what KubeRay does, what ails its pods, and what the driver prints."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from orchestrator.kubernetes.api import Api, AwayError, ForbiddenError, Object
from orchestrator.kubernetes.driver_log import LogFollower
from orchestrator.kubernetes.job_state import JobState, state_of
from orchestrator.kubernetes.job_view import view_of
from orchestrator.kubernetes.job_watch import JobWatch

_LOOK_AT_PODS_EVERY_S = 5.0
_REST_OF_LOG_S = 20.0

End = Literal["over", "suspended", "gone"]


@dataclass(frozen=True, kw_only=True)
class Followed:
    """How it ended: `state` is the last that was seen, `was_read` whether the driver's output was shown to its end."""

    end: End
    state: JobState
    was_read: bool


def follow(api: Api, rayjob: Object, *, say: Callable[[str], None], line: Callable[[str], None]) -> Followed:
    """Follow a RayJob until it is over, suspended by someone, or gone. `line` takes what the driver prints.

    Raises:
        InputError: one may not look at it.
    """
    state = state_of(rayjob)
    watch = JobWatch(api, state.name, say)
    log = LogFollower(api, rayjob, line=line, say=say)
    said = _Said(say)
    try:
        while True:
            try:
                seen = watch.next(_LOOK_AT_PODS_EVERY_S)
            except TimeoutError:
                said.troubles(api, rayjob)
                continue
            if seen is None or state_of(seen).uid != state.uid:
                return Followed(end="gone", state=state, was_read=log.finish(_REST_OF_LOG_S))
            rayjob, state = seen, state_of(seen)
            log.update(rayjob)
            said.state(state)
            if end := _end(state):
                return Followed(end=end, state=state, was_read=log.finish(_REST_OF_LOG_S))
    finally:
        watch.close()
        log.finish(0)


def _end(state: JobState) -> End | None:
    if state.is_over:
        return "over"
    # With a queue a RayJob is suspended until it is let in.
    return "suspended" if state.deployment == "Suspended" and state.is_to_rest and not state.queue else None


class _Said:
    """Says everything once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._state = ""
        self._troubles: set[str] = set()

    def state(self, state: JobState) -> None:
        """Say how it stands, where that is another way than before."""
        if str(state) != self._state:
            self._state = str(state)
            self._say(f"RayJob {state.name}: {state}")

    def troubles(self, api: Api, rayjob: Object) -> None:
        """Say what ails its pods, but what was said already."""
        try:
            found = view_of(api, rayjob).troubles
        except (AwayError, ForbiddenError):  # the RayJob is what is followed
            return
        for trouble in found:
            if (text := str(trouble)) not in self._troubles:
                self._troubles.add(text)
                self._say(f"trouble: {text}")
