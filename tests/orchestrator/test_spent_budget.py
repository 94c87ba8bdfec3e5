"""A budget that is spent begins nothing, and probes have requests of their own: real Ray."""

from dataclasses import replace

import pytest

from orchestrator.cluster import Cluster
from orchestrator.events import Ended, Started
from orchestrator.interrupt import Interrupt
from orchestrator.placing import Driver, Work, place
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.run import _early_end, _write_record
from orchestrator.tuning.desk import Desk
from orchestrator.tuning.studies import Studies
from results.layout import SWEEP_LOCK, probe_rows
from results.store import open_store


@pytest.mark.slow
def test_a_budget_that_is_spent_from_the_start_begins_no_probe_and_no_trial(make_sweep):
    sweep = make_sweep(budget={"wall_hours": 1e-9})
    done = sweep.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Stopped: this run's budget of 1e-09 hours is spent (budget.wall_hours). To go on:" in done.stdout
    assert sweep.statuses() == {}
    assert not list(sweep.folder.glob("probes/*/status.json"))


def test_a_budget_that_the_last_trial_used_up_is_no_reason_to_go_on(make_sweep):
    plan = make_plan(resolve(make_sweep().file), None)
    assert _early_end("all is spent", plan, "densesweep run x") == "Stopped: all is spent. To go on: densesweep run x"
    done = replace(plan, trials=(), probes=())
    assert done.is_finished
    assert _early_end("all is spent", done, "densesweep run x") is None
    assert _early_end(None, plan, "densesweep run x") is None


@pytest.fixture
def place_probes(make_sweep, monkeypatch):
    """Place the probes of a sweep whose trials take a GPU, which this machine need not have; (why it ended, events)."""
    monkeypatch.setattr("orchestrator.resolve.machine_problems", lambda *_: ())
    sweep = make_sweep(resources={"gpus": 1}, probe={"resources": {"gpus": 0}})
    store, resolved = open_store(str(sweep.folder)), resolve(sweep.file)
    plan = make_plan(resolved, store)
    _write_record(plan, store, sweep.file)
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    events = []

    def place_with(spent):
        work = Work(
            store_uri=store.uri,
            lock_token=lock.token,
            trials=[],
            groups=[],
            probes=[probe.probe_id for probe in plan.probes],
            cluster=Cluster(num_cpus=1),
            resources=plan.sweep.resources,
            probe_resources=plan.sweep.probe.resources,
            checkpoints=plan.sweep.checkpoints,
        )
        desk = Desk(plan, store, lock, listener=events.append, say=print)
        driver = Driver(
            listener=events.append,
            interrupt=Interrupt(),
            record_failure=lambda key, reason: pytest.fail(reason),
            say=print,
            spent=spent,
            on_head_lost=pytest.fail,
            studies=Studies([], desk, num_trainings=None),
        )
        return place(work, driver), events, [store.exists(probe_rows(probe.probe_id)) for probe in plan.probes]

    yield place_with
    lock.release()


@pytest.mark.slow
def test_probes_of_a_sweep_on_gpus_run_on_cpus_where_the_file_says_so(place_probes):
    ended_early, events, made = place_probes(lambda: None)
    assert (ended_early, made) == (None, [True])
    assert [type(event) for event in events] == [Started, Ended]
    assert events[1].status.state == "finished"


@pytest.mark.slow
def test_probes_alone_do_not_begin_where_the_budget_is_spent(place_probes):
    ended_early, events, made = place_probes(lambda: "all is spent")
    assert (ended_early, events, made) == ("all is spent", [], [False])
