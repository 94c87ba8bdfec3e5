"""Place trials and probes on Ray: who decides where work runs, never how it works."""

import math
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import ray
from ray import tune
from ray.tune import Callback, Stopper, TuneConfig
from ray.tune.stopper import NoopStopper

from orchestrator.events import Ended, Listener, Retried, Started
from orchestrator.interrupt import Interrupt
from results.layout import Status
from search_spaces.schema import CheckpointsBlock, ResourcesBlock

_OBJECT_STORE_BYTES = 128 * 2**20  # trials exchange ids and numbers, no arrays


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be placed: keys of trials and probes whose specs lie in the store, and what each is given.

    `groups` are the trials to be trained on several devices, a process on each; `trials` all others.
    """

    store_uri: str
    lock_token: int
    trials: Sequence[str]
    groups: Sequence[str]
    probes: Sequence[str]
    num_cpus: int
    resources: ResourcesBlock
    checkpoints: CheckpointsBlock

    @property
    def cpus_in_one_process(self) -> int:
        """What a probe, or a trial in one process, is given: enough that no more than `at_once` fit."""
        at_once = self.resources.at_once
        return max(self.resources.cpus, math.ceil(self.num_cpus / at_once) if at_once else 0)


def _own_the_run() -> None:
    """Keep Tune from handling Ctrl-C, which `orchestrator.interrupt` does, and from writing logs nobody reads."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"


def place(
    work: Work, listener: Listener, interrupt: Interrupt, record_failure: Callable[[str, str], Status]
) -> str | None:
    """Run all probes and trials, several at once, and return when each has ended or the run was interrupted.

    `record_failure(key, reason)` writes the status of a trial or probe whose worker could not do so itself. Returns
    why the sweep was ended before all had run, in one line; None where it was not, or was interrupted.
    """
    _own_the_run()
    ray.init(
        address="local",
        num_cpus=work.num_cpus,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=_OBJECT_STORE_BYTES,
    )
    try:
        with _lost_devices_given_back() if work.groups else nullcontext():
            probes = _Probes(work, listener, record_failure)
            ended_early = _run_trials(work, listener, interrupt, record_failure)
            probes.wait(interrupt)
    finally:
        ray.shutdown()
    return ended_early


def _lost_devices_given_back() -> AbstractContextManager[None]:
    from orchestrator.devices import lost_devices_given_back

    return lost_devices_given_back()


def _run_trials(
    work: Work, listener: Listener, interrupt: Interrupt, record_failure: Callable[[str, str], Status]
) -> str | None:
    """First the trials in several processes, then the others: a turn of their own for each (`orchestrator.devices`)."""
    watcher = _Watcher(work, listener, record_failure)
    stop = _Stop(interrupt, watcher, work.resources.stop_after_failures)
    if work.groups:
        _run_groups(work, watcher, stop)
    if work.trials and not stop.stop_all():
        _tune(work, work.trials, _singles(work), watcher, stop)
    return stop.reason


def _run_groups(work: Work, watcher: "_Watcher", stop: "_Stop") -> None:
    from orchestrator.devices import groups_at_once, lacking

    cluster = ray.cluster_resources()
    if reason := lacking(cluster, work.resources):
        for key in work.groups:
            watcher.give_up(key, reason)
        return
    at_once = groups_at_once(cluster.get("CPU", 0), cluster.get("GPU", 0), work.resources)
    _tune(work, work.groups, _groups(at_once), watcher, stop)


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """How Tune runs one kind of trials."""

    trainable: Any
    config: TuneConfig


def _singles(work: Work) -> _Turn:
    request = tune.PlacementGroupFactory([{"CPU": work.cpus_in_one_process, "GPU": work.resources.gpus}])
    return _Turn(trainable=tune.with_resources(_trainable, request), config=TuneConfig(reuse_actors=True))


def _groups(at_once: int) -> _Turn:
    # No CPU, and a byte of memory, since Tune knows no request of nothing.
    request = tune.PlacementGroupFactory([{"CPU": 0, "memory": 1}])
    return _Turn(
        trainable=tune.with_resources(_group_trainable, request), config=TuneConfig(max_concurrent_trials=at_once)
    )


def _tune(work: Work, keys: Sequence[str], turn: _Turn, watcher: "_Watcher", stop: "_Stop") -> None:
    config = {
        "trial_id": tune.grid_search(list(keys)),
        "store_uri": work.store_uri,
        "lock_token": work.lock_token,
        "every_steps": work.checkpoints.every_steps,
        "every_s": work.checkpoints.every_s,
        "resources": work.resources,
    }
    with tempfile.TemporaryDirectory(prefix="densesweep-tune-") as disposable:
        tune.Tuner(
            turn.trainable,
            param_space=config,
            tune_config=turn.config,
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=disposable,
                callbacks=[watcher],
                failure_config=tune.FailureConfig(max_failures=work.resources.retries),
                stop=stop,
                verbose=0,
            ),
        ).fit()


def _trainable(config: Mapping[str, Any]) -> None:
    """Run one trial in a Ray worker: everything it needs and makes goes through the store."""
    from orchestrator.worker import run_placed_trial

    run_placed_trial(config, tune.report)


def _group_trainable(config: Mapping[str, Any]) -> None:
    """Have one trial run by processes of its own, and pass on what they report."""
    from orchestrator.devices import LostProcessError, run_group

    try:
        run_group(config, tune.report)
    except LostProcessError as error:
        tune.report({"lost": str(error)})  # what Tune itself keeps of an error begins with its own traceback
        raise


class _Watcher(Callback):
    """Turns Tune's callbacks into events, and records the trials whose worker died for good."""

    def __init__(self, work: Work, listener: Listener, record_failure: Callable[[str, str], Status]) -> None:
        self._listener = listener
        self._record_failure = record_failure
        self.num_finished = 0
        self.num_failed = 0
        self.last_failure: str | None = None
        self._lost: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Tune pickles its callbacks to restore an experiment, which is never done: the sweep folder is the truth."""
        return Callback, ()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker has it."""
        self._listener(Started(key=trial.config["trial_id"]))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Unpack what the worker reported."""
        if "lost" in result:
            self._lost[trial.config["trial_id"]] = result["lost"]
        for event in result.get("events", ()):
            if isinstance(event, Ended):
                self._count(event.status)
            self._listener(event)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Its worker died, and Tune tries it again."""
        self._listener(Retried(key=trial.config["trial_id"], reason=self._reason(trial)))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Its worker died once too often."""
        self.give_up(trial.config["trial_id"], self._reason(trial))

    def give_up(self, key: str, reason: str) -> None:
        """Record and tell that a trial failed which could not do so itself."""
        status = self._record_failure(key, reason)
        self._count(status)
        self._listener(Ended(key=key, status=status))

    def _reason(self, trial: Any) -> str:
        return _reason(self._lost.pop(trial.config["trial_id"], "") or str(trial.get_error() or ""))

    def _count(self, status: Status) -> None:
        self.num_finished += status.state == "finished"
        if status.state == "failed":
            self.num_failed += 1
            self.last_failure = status.reason


class _Stop(Stopper):
    """Ends the whole run on Ctrl-C, or when its first trials all failed: one common fault must not burn a sweep."""

    def __init__(self, interrupt: Interrupt, watcher: _Watcher, stop_after_failures: int) -> None:
        self._interrupt = interrupt
        self._watcher = watcher
        self._stop_after_failures = stop_after_failures

    def __reduce__(self) -> tuple[type[Stopper], tuple[()]]:
        """As that of `_Watcher`."""
        return NoopStopper, ()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Never ends a single trial."""
        return False

    @property
    def reason(self) -> str | None:
        """Why the sweep ends early, if it does so by itself."""
        num_failed = self._watcher.num_failed
        if self._watcher.num_finished or num_failed < self._stop_after_failures:
            return None
        return f"the first {num_failed} trials all failed, the last with: {self._watcher.last_failure}"

    def stop_all(self) -> bool:
        """Whether to start nothing more and end what runs."""
        return self.reason is not None or self._interrupt.asked


def _reason(text: str) -> str:
    """One line on why Ray lost a trial."""
    if "OutOfMemory" in text or "memory monitor" in text:
        return "out of memory: Ray ended the worker (ask for fewer trials at once, or a smaller global_batch or layers)"
    return f"worker died: {_first_line(text)}"


def _first_line(text: str) -> str:
    """The first line, without the colours that Ray puts in."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).strip().splitlines()
    return lines[0] if lines else "no reason known"


class _Probes:
    """Probes as Ray tasks, watched by one thread."""

    def __init__(self, work: Work, listener: Listener, record_failure: Callable[[str, str], Status]) -> None:
        task = ray.remote(
            num_cpus=work.cpus_in_one_process, num_gpus=work.resources.gpus, max_retries=work.resources.retries
        )(_probe)
        self._refs = {task.remote(work.store_uri, key, work.lock_token): key for key in work.probes}
        self._listener = listener
        self._record_failure = record_failure
        self._given_up = threading.Event()
        for key in work.probes:
            listener(Started(key=key))
        self._thread = threading.Thread(target=self._watch, name="probes", daemon=True)
        self._thread.start()

    def wait(self, interrupt: Interrupt) -> None:
        """Return when all have ended, or the run was interrupted."""
        while self._thread.is_alive() and not interrupt.asked:
            self._thread.join(timeout=0.2)
        self._given_up.set()
        self._thread.join()

    def _watch(self) -> None:
        pending = list(self._refs)
        while pending and not self._given_up.is_set():
            done, pending = ray.wait(pending, timeout=0.5)
            for ref in done:
                self._listener(Ended(key=self._refs[ref], status=self._status(ref)))

    def _status(self, ref: Any) -> Status:
        try:
            return ray.get(ref)
        except ray.exceptions.RayTaskError as error:  # run_probe records its own failures: this is one of ours
            return self._record_failure(self._refs[ref], f"{type(error.cause).__name__}: {error.cause}")
        except ray.exceptions.RayError as error:
            return self._record_failure(self._refs[ref], f"worker died: {_first_line(str(error))}")


def _probe(store_uri: str, key: str, lock_token: int) -> Status:
    from orchestrator.worker import run_placed_probe

    return run_placed_probe(store_uri, key, lock_token)
