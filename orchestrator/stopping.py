"""When a run, or a sample, ends before its time: Ctrl-C, no place, a budget that is spent, ..., and pruned samples."""

from collections.abc import Callable, Sequence
from typing import Any

from ray.tune import Stopper
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.stopper import NoopStopper

from orchestrator.events import Event
from orchestrator.interrupt import Interrupt
from orchestrator.patience import Patience
from orchestrator.ray_internals import trial_for_a_free_actor
from orchestrator.watching import Watcher


class Stop(Stopper):
    """Ends one turn in Tune, and says why the sweep ends early."""

    def __init__(
        self,
        *,
        interrupt: Interrupt,
        watcher: Watcher,
        stop_after_failures: int,
        patience: Patience,
        spent: Callable[[], str | None],
    ) -> None:
        self._interrupt = interrupt
        self._watcher = watcher
        self._stop_after_failures = stop_after_failures
        self._patience = patience
        self._spent = spent
        self.no_place: str | None = None

    def __reduce__(self) -> tuple[type[Stopper], tuple[()]]:
        """As that of `Watcher`."""
        return NoopStopper, ()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Never ends a single trial."""
        return False

    @property
    def reason(self) -> str | None:
        """Why the sweep ends early, if it does so by itself."""
        return self.all_failed or self.no_place or self._spent()

    @property
    def all_failed(self) -> str | None:
        """One common fault must not burn a sweep."""
        num_failed = self._watcher.num_failed
        if self._watcher.num_finished or num_failed < self._stop_after_failures:
            return None
        return f"the first {num_failed} trials all failed, the last with: {self._watcher.last_failure}"

    def stop_all(self) -> bool:
        """Whether to start nothing more and end what runs."""
        self.no_place = self.no_place or self._patience.ran_out()
        return bool(self.no_place or self.all_failed or self._interrupt.asked)

    def starts_nothing(self) -> bool:
        """Whether to start nothing more, while what runs may end."""
        return self.stop_all() or self._spent() is not None


class Closing(FIFOScheduler):
    """Tune's own order, but when nothing more is to start, trials that Tune holds already do not start either.

    `is_to_stop(key, events)`: whether a trial that tells of these events ends with them. It stands in its report, and
    so writes nothing more.
    """

    def __init__(self, starts_nothing: Callable[[], bool], is_to_stop: Callable[[str, Sequence[Event]], bool]) -> None:
        super().__init__()
        self._starts_nothing = starts_nothing
        self._is_to_stop = is_to_stop

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Give it its folder, which Tune makes when it asks for a worker, and misses where it never came to that."""
        trial.init_local_path()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Whether the trial goes on; the watcher hears of the same result afterwards."""
        is_to_stop = self._is_to_stop(trial.config["trial_id"], result.get("events", ()))
        return TrialScheduler.STOP if is_to_stop else TrialScheduler.CONTINUE

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """A trial for an actor that is free; None where there is none of either, as Tune starts what waits itself."""
        if self._starts_nothing():
            for trial in list(tune_controller.get_live_trials()):
                if trial.status == Trial.PENDING:
                    tune_controller.stop_trial(trial)
            return None
        return trial_for_a_free_actor(tune_controller)
