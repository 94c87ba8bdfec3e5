"""Place trials and probes on Ray: who decides where work runs, never how it works."""

import logging
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ray import tune
from ray.tune import TuneConfig

from orchestrator.cluster import Cluster, check_nodes, connected, nodes
from orchestrator.deaths import whereabouts
from orchestrator.events import Event, Listener
from orchestrator.interrupt import Interrupt
from orchestrator.node_check import node_problem, versions
from orchestrator.patience import Patience
from orchestrator.pools import build_pools
from orchestrator.ray_internals import check_internals
from orchestrator.requests import Request, groups_at_once, request_of, request_of_probe
from orchestrator.retries import Retries
from orchestrator.stopping import Closing, Stop
from orchestrator.tasks import Tasks
from orchestrator.trial_queue import TrialQueue
from orchestrator.tuning.studies import Studies
from orchestrator.watching import RecordFailure, Watcher
from results.layout import Status
from search_spaces.schema import CheckpointsBlock, ProbeResourcesBlock, ResourcesBlock

_PENDING_ON_A_CLUSTER = 200  # places asked for beyond those that are taken: what it may grow by
_LEAVES_WITHIN_S = 60  # a pruned sample its step, before Tune takes its process for lost; Tune's own default is 2
_PENDING_HERE = 2  # for each CPU: Ray looks at all of them again and again, and this machine does not grow


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be placed: keys of trials, probes and pools whose specs lie in the store, and what each is given.

    `groups` are the trials to be trained on several devices, a process on each; `trials` all others. `waits_for` names
    for a trial the one whose end it goes on from.
    `placement_timeout_s`: how long work may wait that fits no node of the cluster. `groups_at_once`: how many groups
    fit once the cluster has grown, if it grows.
    """

    store_uri: str
    lock_token: int
    trials: Sequence[str]
    groups: Sequence[str]
    probes: Sequence[str]
    cluster: Cluster
    resources: ResourcesBlock
    checkpoints: CheckpointsBlock
    placement_timeout_s: float = 0.0
    groups_at_once: int | None = None
    pools: Sequence[str] = ()
    waits_for: Mapping[str, str] = field(default_factory=dict)
    probe_resources: ProbeResourcesBlock = field(default_factory=ProbeResourcesBlock)

    @property
    def single(self) -> Request:
        """The request of a trial in one process."""
        return self._in_one_process(request_of(self.resources))

    @property
    def probe(self) -> Request:
        """The request of a probe."""
        return self._in_one_process(request_of_probe(self.probe_resources, self.resources))

    def _in_one_process(self, request: Request) -> Request:
        """Here with so many CPUs that no more than `at_once` fit."""
        at_once = self.resources.at_once if self.cluster.address is None else None
        return replace(request, cpus=max(request.cpus, math.ceil(self.cluster.num_cpus / at_once) if at_once else 0))


@dataclass(frozen=True, kw_only=True)
class Driver:
    """How placing speaks with the run that it is part of.

    Attributes:
        listener: told of each event.
        interrupt: whether the user asked to stop.
        record_failure: `record_failure(key, reason)` writes the status of a trial or probe whose worker could not.
        say: prints a line.
        spent: why the budget allows nothing more to be started; None while it does.
        on_head_lost: ends the process, which can do nothing more with Ray.
        studies: where trials come from beside those that are known from the start.
    """

    listener: Listener
    interrupt: Interrupt
    record_failure: RecordFailure
    say: Callable[[str], None]
    spent: Callable[[], str | None]
    on_head_lost: Callable[[str], None]
    studies: Studies

    def is_closed(self) -> bool:
        """Whether to begin nothing more, while what runs may end."""
        return self.interrupt.asked or self.spent() is not None


def _own_the_run(cluster: Cluster) -> None:
    """Keep Tune from handling Ctrl-C, which `orchestrator.interrupt` does, and from writing what nobody reads."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = str(365 * 24 * 3600)  # its own state: the sweep folder is the truth
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(
        _PENDING_ON_A_CLUSTER if cluster.address else _PENDING_HERE * cluster.num_cpus
    )
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = str(_LEAVES_WITHIN_S)
    os.environ["TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S"] = "0"  # `Patience` does it, and ends the wait
    # At its end Tune looks for the metrics that its own loggers would have written, and warns of each trial.
    logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)


def place(work: Work, driver: Driver) -> str | None:
    """Run all probes and trials, several at once, and return when each has ended or the run was interrupted.

    Pools that trials are evaluated on are built before the first trial. Returns why the sweep was ended before all had
    run, in one line; None where it was not, or was interrupted.

    Raises:
        InputError: the cluster cannot be joined, its nodes cannot run trials, or this Ray is another than is known.
    """
    check_internals()
    _own_the_run(work.cluster)
    with connected(work.cluster, on_head_lost=driver.on_head_lost):
        if work.cluster.address is not None:
            check_nodes(node_problem, work.store_uri, versions())
        with _lost_devices_given_back() if work.groups else nullcontext():
            probes = _probes(work, driver)
            if work.resources.at_once and work.cluster.address is not None:
                probes.wait(driver.interrupt)  # both together would be more than `at_once`
            ended_early = build_pools(work, driver, partial(_patience, work, driver)) or _run_trials(work, driver)
            not_begun = probes.wait(driver.interrupt)
    return ended_early or (driver.spent() if not_begun else None)


def _lost_devices_given_back() -> AbstractContextManager[None]:
    from orchestrator.devices import lost_devices_given_back

    return lost_devices_given_back()


def _probes(work: Work, driver: Driver) -> Tasks:
    return Tasks(
        _probe,
        {key: (work.store_uri, key, work.lock_token) for key in work.probes},
        request=work.probe,
        retries=Retries(limit=work.resources.retries),
        patience=_patience(work, driver, work.probe),
        listener=driver.listener,
        record_failure=driver.record_failure,
        is_closed=driver.is_closed,
    )


def _patience(work: Work, driver: Driver, request: Request, *, num_processes: int = 1) -> Patience:
    return Patience(
        request, num_processes=num_processes, timeout_s=work.placement_timeout_s, nodes=nodes, say=driver.say
    )


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """How Tune runs one kind of trials."""

    keys: Sequence[str]
    trainable: Any
    reuse_actors: bool
    at_once: int | None
    patience: Patience
    studies: Studies | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to run."""
        return bool(self.keys) or not (self.studies is None or self.studies.is_over)


def _run_trials(work: Work, driver: Driver) -> str | None:
    """First the trials in several processes, then the others: a turn of their own for each (`orchestrator.devices`)."""
    retries = Retries(limit=work.resources.retries)
    watcher = Watcher(driver.listener, retries, driver.record_failure)
    ended_early = None
    for turn in (_groups, _singles):
        made = turn(work, driver)
        stop = Stop(
            interrupt=driver.interrupt,
            watcher=watcher,
            stop_after_failures=work.resources.stop_after_failures,
            patience=made.patience,
            spent=driver.spent,
        )
        if not made.is_needed:
            continue
        if not stop.starts_nothing():
            _tune(work, made, watcher, retries, stop)
        if stop.no_place:
            for key in made.keys:
                if key not in watcher.ended:
                    watcher.give_up(key, f"found no place: {stop.no_place}")
        ended_early = stop.reason or ended_early
    return ended_early


def _singles(work: Work, driver: Driver) -> _Turn:
    request = tune.PlacementGroupFactory([work.single.bundle])
    return _Turn(
        keys=work.trials,
        trainable=tune.with_resources(_trainable, request),
        reuse_actors=True,
        at_once=work.resources.at_once,
        patience=_patience(work, driver, work.single),
        studies=driver.studies if work.resources.devices == 1 else None,
    )


def _groups(work: Work, driver: Driver) -> _Turn:
    # No CPU, and a byte of memory, since Tune knows no request of nothing.
    request = tune.PlacementGroupFactory([{"CPU": 0, "memory": 1}])
    device, num_processes = request_of(work.resources), work.resources.devices
    at_once = groups_at_once(
        nodes(), device, num_processes=num_processes, at_once=work.resources.at_once, foreseen=work.groups_at_once
    )
    return _Turn(
        keys=work.groups,
        trainable=tune.with_resources(_group_trainable, request),
        reuse_actors=False,
        at_once=at_once,
        patience=_patience(work, driver, device, num_processes=num_processes),
        studies=driver.studies if num_processes > 1 else None,
    )


def _tune(work: Work, turn: _Turn, watcher: Watcher, retries: Retries, stop: Stop) -> None:
    queue = TrialQueue(
        turn.keys,
        config={
            "store_uri": work.store_uri,
            "lock_token": work.lock_token,
            "every_steps": work.checkpoints.every_steps,
            "every_s": work.checkpoints.every_s,
            "resources": work.resources,
        },
        retries=retries,
        at_once=turn.at_once,
        is_closed=stop.starts_nothing,
        source=turn.studies,
        waits_for=work.waits_for,
    )
    watcher.again = queue.again
    with tempfile.TemporaryDirectory(prefix="densesweep-tune-") as disposable:
        tune.Tuner(
            turn.trainable,
            tune_config=TuneConfig(
                search_alg=queue,
                scheduler=Closing(stop.starts_nothing, turn.studies.is_to_stop if turn.studies else _never),
                num_samples=-1,
                reuse_actors=turn.reuse_actors,
                trial_dirname_creator=lambda trial: trial.trial_id,  # Tune would write out the whole config
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=disposable,
                callbacks=[watcher],
                failure_config=tune.FailureConfig(max_failures=0),  # the queue hands out again what died
                stop=stop,
                verbose=0,
            ),
        ).fit()


def _never(key: str, events: Sequence[Event]) -> bool:
    return False


def _trainable(config: Mapping[str, Any]) -> None:
    """Run one trial in a Ray worker: everything it needs and makes goes through the store."""
    from orchestrator.worker import run_placed_trial

    first: dict[str, Any] = {"whereabouts": whereabouts()}

    def send(message: dict[str, Any]) -> None:
        tune.report({**message, **first})
        first.clear()

    run_placed_trial(config, send)


def _group_trainable(config: Mapping[str, Any]) -> None:
    """Have one trial run by processes of its own, and pass on what they report."""
    from orchestrator.devices import LostProcessError, run_group

    try:
        run_group(config, tune.report)
    except LostProcessError as error:
        tune.report({"lost": str(error)})  # what Tune itself keeps of an error begins with its own traceback
        raise


def _probe(store_uri: str, key: str, lock_token: int) -> Status:
    from orchestrator.worker import run_placed_probe

    return run_placed_probe(store_uri, key, lock_token)
