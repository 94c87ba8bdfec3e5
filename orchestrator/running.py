"""Hand what a plan has left to Ray, within its budget."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestrator.budget import Budget, Spending, Spent, affordable, read_spent, write_spent
from orchestrator.continuations import waits_for
from orchestrator.events import Event, Listener
from orchestrator.interrupt import Interrupt
from orchestrator.machine import available_cpus
from orchestrator.plan import Plan, TrialPlan
from orchestrator.pool_costs import reading_keys
from results import layout
from results.clock import utc_now
from results.layout import Status
from results.room import is_out_of_space
from results.store import Lock, LostLockError, Store
from results.waiting_store import WaitingStore

if TYPE_CHECKING:
    from orchestrator.placing import Work
    from orchestrator.tuning.studies import Studies
    from orchestrator.watching import RecordFailure


@dataclass(frozen=True, kw_only=True)
class Where:
    """On which cluster: that of `address`, else one of its own; how long work may wait there for a fitting node.

    `groups_at_once`: how many trials on several devices it has room for once it has grown.
    """

    address: str | None = None
    placement_timeout_s: float = 0.0
    groups_at_once: int | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """Who is told what: of each event, and lines for people; `end` ends the process when Ray's head is gone."""

    listener: Listener
    say: Callable[[str], None]
    end: Callable[[str], None]


def spending_of(plan: Plan, store: WaitingStore, lock: Lock) -> Spending:
    """What follows a run's events to say when the plan's budget is spent. What is spent is kept in the store."""
    resources = plan.sweep.resources
    gpus = {p.probe_id: plan.sweep.probe.resources.gpus_of(resources) for p in plan.probes}
    gpus |= {t.trial_id: resources.gpus * (resources.devices if t.is_trained_together else 1) for t in plan.trials}
    gpus |= dict.fromkeys(reading_keys(p.spec for p in plan.pools), resources.gpus)
    return Spending(
        budget_of(plan),
        before=read_spent(store),
        gpus=gpus,
        keep=lambda spent: _keep(spent, store.at_once, lock),
        gpus_of_search=resources.gpus * resources.devices,
    )


def _keep(spent: Spent, store: Store, lock: Lock) -> None:
    """A full disk, or a server that is away for a moment, ends no sweep: the next time tells of this time too."""
    with contextlib.suppress(OSError):
        if not _is_lost(lock):  # else it is another driver's to say what the sweep spent
            write_spent(store, spent)


def budget_of(plan: Plan) -> Budget:
    """The sweep file's."""
    block = plan.sweep.budget
    return Budget(trials=block.trials, gpu_hours=block.gpu_hours, wall_hours=block.wall_hours)


def run_left(
    plan: Plan, store: WaitingStore, lock: Lock, *, where: Where, told: Told, spending: Spending, interrupt: Interrupt
) -> str | None:
    """Run what is left on Ray; nothing is started where nothing is. Returns why it ended early, if it did."""
    if plan.is_finished or interrupt.asked:
        return None
    from orchestrator.placing import Driver, place

    left, unaffordable = _affordable(plan)
    studies = _studies(plan, store, lock, told, num_trained=sum(map(_is_to_train, left)))

    def tell(event: Event) -> None:
        told.listener(event)
        studies(event)

    driver = Driver(
        listener=tell,
        interrupt=interrupt,
        record_failure=_failure_recorder(plan, store, lock, interrupt),
        say=told.say,
        spent=spending.reason,
        on_head_lost=told.end,
        studies=studies,
    )
    try:
        with spending.written_down():
            ended_early = place(_work(plan, left, store, lock, where), driver)
        return ended_early or unaffordable or studies.unaffordable
    finally:
        studies.close()


def _work(plan: Plan, left: Sequence[TrialPlan], store: Store, lock: Lock, where: Where) -> "Work":
    """What is to be placed: these trials, and the probes and pools that are left."""
    from orchestrator.cluster import Cluster
    from orchestrator.placing import Work

    return Work(
        store_uri=store.uri,
        lock_token=lock.token,
        trials=[t.trial_id for t in left if not t.is_trained_together],
        groups=[t.trial_id for t in left if t.is_trained_together],
        probes=[p.probe_id for p in plan.probes_left],
        cluster=Cluster(address=where.address, num_cpus=_cpus_for(plan)),
        resources=plan.sweep.resources,
        probe_resources=plan.sweep.probe.resources,
        checkpoints=plan.sweep.checkpoints,
        placement_timeout_s=where.placement_timeout_s,
        groups_at_once=where.groups_at_once,
        pools=[p.pool_id for p in plan.pools if left and not p.built],
        waits_for=waits_for(t.spec for t in left if _is_to_train(t)),
    )


def _failure_recorder(plan: Plan, store: WaitingStore, lock: Lock, interrupt: Interrupt) -> "RecordFailure":
    def record_failure(key: str, reason: str) -> Status:
        if _is_lost(lock):  # the trial is another driver's now, and so is its status
            interrupt.asked = True
            return Status(state="failed", reason="another run took this sweep over", started_at=utc_now())
        return _record_failure(plan, store.at_once, key, reason)

    return record_failure


def _studies(plan: Plan, store: Store, lock: Lock, told: Told, *, num_trained: int) -> "Studies":
    """The studies that have not found hyperparameters; `num_trained` trainings of the budget are others'."""
    from orchestrator.tuning.desk import Desk
    from orchestrator.tuning.studies import Studies
    from orchestrator.tuning.study import Study

    limit = budget_of(plan).trials
    return Studies(
        [Study(study.cell, study.study_id, study.record) for study in plan.studies_left],
        Desk(plan, store, lock, listener=told.listener, say=told.say),
        num_trainings=None if limit is None else limit - _num_trained(plan) - num_trained,
    )


def _affordable(plan: Plan) -> tuple[list[TrialPlan], str | None]:
    """The trials to run, and why there are no more of them, if the budget is why."""
    budget = budget_of(plan)
    left = plan.trials_left
    to_train = [t.trial_id for t in left if _is_to_train(t)]
    paid = affordable(to_train, num_trained=_num_trained(plan), budget=budget)
    unpaid = set(to_train) - set(paid)
    reason = f"the budget of {budget.trials} trained trials is spent (budget.trials), {len(unpaid)} left"
    return [t for t in left if t.trial_id not in unpaid], reason if unpaid else None


def _num_trained(plan: Plan) -> int:
    """How many trials and samples of searches have been trained."""
    num_trials = sum(t.spec.is_trained and not _is_to_train(t) for t in plan.trials)
    return num_trials + sum(study.num_ended for study in plan.studies)


def _is_to_train(trial: TrialPlan) -> bool:
    return trial.spec.is_trained and trial.state not in ("to evaluate", "finished")


def _cpus_for(plan: Plan) -> int:
    """The CPUs to give to trials and probes: as many as run at once may use."""
    resources = plan.sweep.resources
    if not resources.at_once:
        return available_cpus()
    of_trials = resources.at_once * resources.devices * resources.cpus
    of_probes = resources.at_once * plan.sweep.probe.resources.cpus_of(resources) if plan.probes_left else 0
    return min(max(of_trials, of_probes), available_cpus())


def _is_lost(lock: Lock) -> bool:
    try:
        lock.verify()
    except LostLockError:
        return True
    return False


def _record_failure(plan: Plan, store: Store, key: str, reason: str) -> Status:
    """Write the status of a trial or probe whose worker could not do so itself."""
    status_key = layout.status_key(prefix_of(plan, key))
    now = utc_now()
    before = layout.from_bytes(Status, store.read(status_key)) if store.exists(status_key) else None
    started = before or Status(state="running", started_at=now)
    status = replace(started, state="failed", reason=reason, finished_at=now)
    try:
        store.write(status_key, layout.to_bytes(status))
    except OSError as error:
        if not is_out_of_space(error):  # else the record says that it runs, and the next run finds that it does not
            raise
    return status


def prefix_of(plan: Plan, key: str) -> str:
    """The folder of a probe of the plan, or of a trial, which a search may have added."""
    is_probe = any(p.probe_id == key for p in plan.probes)
    return layout.probe_prefix(key) if is_probe else layout.trial_prefix(key)
