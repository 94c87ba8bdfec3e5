"""What placing starts when a budget is spent on the way: real Ray, real trials."""

import pytest

from orchestrator.cluster import Cluster
from orchestrator.events import Ended, Started
from orchestrator.interrupt import Interrupt
from orchestrator.placing import Driver, Work, place
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.run import _write_record
from orchestrator.tuning.desk import Desk
from orchestrator.tuning.studies import Studies
from results.layout import SWEEP_LOCK
from results.store import open_store
from tests.benchmarks.tiny_sweep import write_tiny_sweep

pytestmark = pytest.mark.heavy


def test_a_spent_budget_starts_nothing_more_and_lets_end_what_runs(tmp_path):
    file = write_tiny_sweep(tmp_path, num_seeds=4)
    store = open_store(str(tmp_path / "sweep"))
    plan = make_plan(resolve(file), store)
    _write_record(plan, store, file)
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    work = Work(
        store_uri=store.uri,
        lock_token=lock.token,
        trials=[trial.trial_id for trial in plan.trials],
        groups=[],
        probes=[],
        cluster=Cluster(num_cpus=1),
        resources=plan.sweep.resources,
        checkpoints=plan.sweep.checkpoints,
    )
    events = []
    driver = Driver(
        listener=events.append,
        interrupt=Interrupt(),
        record_failure=lambda key, reason: pytest.fail(reason),
        say=print,
        spent=lambda: "all is spent" if any(isinstance(event, Started) for event in events) else None,
        on_head_lost=pytest.fail,
        studies=Studies([], Desk(plan, store, lock, listener=events.append, say=print), num_trainings=None),
    )
    try:
        assert place(work, driver) == "all is spent"
    finally:
        lock.release()
    [started] = [event for event in events if isinstance(event, Started)]
    [ended] = [event for event in events if isinstance(event, Ended)]
    assert ended.key == started.key
    assert ended.status.state == "finished"
    assert [trial.state for trial in make_plan(resolve(file), store).trials].count("left") == 4
