"""A trial on several devices: one process for each, which Ray Train places together, and their way back to Tune.

They train. Then they end and give all devices back, and one process, placed in the same way, evaluates: the other
devices are for whoever waits, or else for helpers of that evaluation (`orchestrator.spare_workers`).

Who holds what, so that nothing waits for ever: whoever holds CPUs or GPUs has all that it will need. A probe, and a
trial in one process, is started when its own are free. A trial in several holds none in Tune; its processes get theirs
all at once, as one placement group, or wait for them with none in hand. `requests.groups_at_once` lets Tune start no
more of these than fit, and they have a turn of their own in Tune (`orchestrator.placing`), so they wait for probes
alone. What the processes of a killed attempt held is given back while the sweep runs (`lost_devices_given_back`).
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayActorError
from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.placement_group import remove_placement_group
from ray.util.queue import Empty, Queue

from orchestrator.events import Ended
from orchestrator.ray_internals import orphaned_groups
from orchestrator.requests import request_of
from orchestrator.worker import join_placed_trial, record_end, run_placed_trial
from results.layout import Status
from results.store import LostLockError, open_store
from search_spaces.schema import ResourcesBlock
from trainers.training.processes import LostPeerError
from trainers.trial import has_training_left, planned_trial

Message = dict[str, Any]
Send = Callable[[Message], None]

_TRAIN_SETTINGS = {
    # Processes wait for their devices as long as probes take: Train's 60 s would count as failures, and so would any
    # other limit (this one is a year). What can never be met is refused before (`orchestrator.patience`).
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(365 * 24 * 3600),
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # one process less for each trial: Tune tries again whatever is lost
}
_POLL_S = 0.5
_GIVE_BACK_EVERY_S = 1.0


class LostProcessError(RuntimeError):
    """A process of the group died; the trial is tried again from its last training checkpoint."""


@contextmanager
def lost_devices_given_back() -> Iterator[None]:
    """While the block runs, give back what killed attempts held: nobody else does, and their next would wait for ever.

    Ray keeps an actor's placement group until the actor and also its job, which is the whole sweep, are gone. Train's
    own remedy, a PlacementGroupCleaner, finds out by a dashboard that does not run here, and comes too late for a
    group that still waited for its devices.
    """
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_GIVE_BACK_EVERY_S):
            give_back()

    def give_back() -> None:
        for placement_group in orphaned_groups():
            remove_placement_group(placement_group)

    give_back()  # should it fail, it fails here, not in the thread
    thread = threading.Thread(target=watch, name="lost devices", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def run_group(config: Mapping[str, Any], send: Send) -> None:
    """Run one trial in all its processes, from the Tune function that stands for it; `send` reports to the driver.

    A trial that fails is recorded and told as one on one device is, whichever process saw it.

    Raises:
        LostProcessError: a process died. The message says which and why.
    """
    os.environ.update(_TRAIN_SETTINGS)
    store = open_store(config["store_uri"])
    once = _OneEnd(send)
    is_trained_here = has_training_left(planned_trial(config["trial_id"], store), store)
    if is_trained_here:
        _run_processes({**config, "part": "training"}, config["resources"].devices, once)
    if once.status is None:
        _run_processes({**config, "part": "evaluation" if is_trained_here else "whole"}, 1, once)


def _run_processes(config: Mapping[str, Any], num_processes: int, once: "_OneEnd") -> None:
    queue = Queue(actor_options={"num_cpus": 0})
    fitting = _Fitting(_trainer(config, queue, num_processes))
    while not fitting.is_over:
        _pass_on(queue, once, wait_s=_POLL_S)
    while not queue.empty():
        _pass_on(queue, once, wait_s=0)
    if fitting.error and once.status is None:
        raise LostProcessError(_reason(fitting.error)) from fitting.error
    if fitting.error and once.status:
        record_end(config, once.status)


def _trainer(config: Mapping[str, Any], queue: Queue, num_processes: int) -> TorchTrainer:
    resources: ResourcesBlock = config["resources"]
    return TorchTrainer(
        _run_process,
        train_loop_config={**config, "queue": queue},
        scaling_config=ScalingConfig(
            num_workers=num_processes,
            use_gpu=bool(resources.gpus),
            resources_per_worker=request_of(resources).bundle,
        ),
        torch_config=TorchConfig(backend="nccl" if resources.gpus else "gloo"),
        run_config=RunConfig(
            name=f"{config['part']}-{config['trial_id']}",
            storage_path=tune.get_context().get_trial_dir(),  # goes with Tune's: nothing is kept there
            # Tune alone counts the tries.
            failure_config=FailureConfig(max_failures=0, controller_failure_limit=0, max_preemption_failures=0),
        ),
    )


def _run_process(config: Mapping[str, Any]) -> None:
    """The trial in one process of the group."""
    queue: Queue = config["queue"]

    def send(message: Message) -> None:
        try:
            queue.put(message)
        except RayActorError as error:
            raise LostLockError("the trial's place in Tune is gone, and another attempt may have begun") from error

    if ray.train.get_context().get_world_rank() > 0:
        join_placed_trial(config, send)
        return
    status = run_placed_trial(config, send, config["part"])
    if status.state == "failed":  # the others wait for this process in vain: Train ends them
        raise RuntimeError(f"the trial failed: {status.reason}")


class _Fitting:
    """A trainer at work in a thread of its own, which ends with the process if Tune stops the trial."""

    def __init__(self, trainer: TorchTrainer) -> None:
        self.error: Exception | None = None
        self._trainer = trainer
        self._thread = threading.Thread(target=self._run, name="train", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether all processes have ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._trainer.fit()
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits, whatever it is
            self.error = error


class _OneEnd:
    """Hands messages on, with one end of the trial: several processes may see it fail."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: Status | None = None

    def __call__(self, message: Message) -> None:
        """Send what is new."""
        ends = [event.status for event in message["events"] if isinstance(event, Ended)]
        if not (ends and self.status):
            self._send(message)
        self.status = self.status or next(iter(ends), None)


def _pass_on(queue: Queue, send: Send, *, wait_s: float) -> None:
    try:
        message = queue.get(block=wait_s > 0, timeout=wait_s or None)
    except Empty:
        return
    send(message)


def _reason(error: Exception) -> str:
    """Which processes were lost, and why, in one line; those that only missed another are left out if that is known."""
    if not isinstance(error, WorkerGroupError):
        return _text(error)
    lost = sorted(error.worker_failures.items())
    by_themselves = [(rank, failure) for rank, failure in lost if not isinstance(failure, LostPeerError)]
    return "; ".join(f"process {rank} of the trial: {_text(failure)}" for rank, failure in by_themselves or lost)


def _text(failure: Exception) -> str:
    cause = getattr(failure, "health_check_failure", failure)
    text = str(cause).strip()
    kind = "OutOfMemory" if "low on memory" in text else type(cause).__name__
    return f"{kind}: {text.splitlines()[0] if text else 'no reason known'}"
