"""What Tune's callbacks become: events, another try for a trial that died, and its failure when no try is left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune import Callback

from orchestrator.deaths import Whereabouts, reason_of_death
from orchestrator.events import Ended, Listener, Retried, Started, Stepped
from orchestrator.retries import Retries
from results.layout import Status

RecordFailure = Callable[[str, str], Status]


class Watcher(Callback):
    """Follows the trials of a sweep, over all its turns in Tune.

    Args:
        listener: told of each event.
        retries: counts deaths.
        record_failure: `record_failure(key, reason)` writes the status of a trial that could not do so itself.
    """

    def __init__(self, listener: Listener, retries: Retries, record_failure: RecordFailure) -> None:
        self._listener = listener
        self._retries = retries
        self._record_failure = record_failure
        self.again: Callable[[str], None] = _nobody
        self.num_finished = 0
        self.num_failed = 0
        self.last_failure: str | None = None
        self.ended: set[str] = set()
        self._lost: dict[str, str] = {}
        self._began: dict[str, Whereabouts] = {}

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Tune pickles its callbacks to restore an experiment, which is never done: the sweep folder is the truth."""
        return Callback, ()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker has it."""
        self._began.pop(_key(trial), None)
        self._listener(Started(key=_key(trial)))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Unpack what the worker reported."""
        key = _key(trial)
        if "lost" in result:
            self._lost[key] = result["lost"]
        if "whereabouts" in result:
            self._began[key] = result["whereabouts"]
        for event in result.get("events", ()):
            if isinstance(event, Stepped) and event.history:
                self._retries.stepped(key, int(event.history[-1]["step"]))
            if isinstance(event, Ended):
                self._count(event.status)
                self.ended.add(key)
            self._listener(event)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Its worker died: it is tried again, or fails."""
        key = _key(trial)
        reason = reason_of_death(self._lost.pop(key, "") or _error_of(trial), self._began.pop(key, None))
        if self._retries.died(key):
            self.again(key)
            self._listener(Retried(key=key, reason=reason))
        else:
            self._count(self.give_up(key, reason))

    def give_up(self, key: str, reason: str) -> Status:
        """Record and tell that a trial failed which could not do so itself."""
        status = self._record_failure(key, reason)
        self.ended.add(key)
        self._listener(Ended(key=key, status=status))
        return status

    def _count(self, status: Status) -> None:
        self.num_finished += status.state == "finished"
        if status.state == "failed":
            self.num_failed += 1
            self.last_failure = status.reason


def _key(trial: Any) -> str:
    return trial.config["trial_id"]


def _error_of(trial: Any) -> str:
    """What Tune keeps of a trial's error, without the line that it puts above.

    Not `trial.get_error()`, which reads a copy that Tune makes when it saves its own state, and it saves none here.
    """
    file = Path(trial.error_file)
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return text.partition("\n")[2] if text.startswith("Failure #") else text


def _nobody(key: str) -> None:
    raise AssertionError("no turn in Tune has begun")
