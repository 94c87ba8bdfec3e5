"""What placing starts when a budget is spent on the way: real Ray, real trials."""

import os
import signal
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest
from ray import cloudpickle

from orchestrator import placing, stopping
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


def work_of(tmp_path, *, num_trials, num_cpus):
    """What is left of a new sweep of tiny trials, and who runs it."""
    file = write_tiny_sweep(tmp_path, num_seeds=num_trials - 1)
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
        cluster=Cluster(num_cpus=num_cpus),
        resources=plan.sweep.resources,
        checkpoints=plan.sweep.checkpoints,
    )
    events = []
    driver = Driver(
        listener=events.append,
        interrupt=Interrupt(),
        record_failure=lambda key, reason: pytest.fail(reason),
        say=print,
        spent=lambda: None,
        on_head_lost=pytest.fail,
        studies=Studies([], Desk(plan, store, lock, listener=events.append, say=print), num_trainings=None),
    )
    return file, store, lock, work, driver, events


def test_a_spent_budget_starts_nothing_more_and_lets_end_what_runs(tmp_path):
    file, store, lock, work, driver, events = work_of(tmp_path, num_trials=5, num_cpus=1)

    def spent():
        return "all is spent" if any(isinstance(event, Started) for event in events) else None

    try:
        assert place(work, replace(driver, spent=spent)) == "all is spent"
    finally:
        lock.release()
    [started] = [event for event in events if isinstance(event, Started)]
    [ended] = [event for event in events if isinstance(event, Ended)]
    assert ended.key == started.key
    assert ended.status.state == "finished"
    assert [trial.state for trial in make_plan(resolve(file), store).trials].count("left") == 4


def test_trials_that_wait_without_a_worker_asked_for_do_not_disturb_an_early_end(tmp_path, monkeypatch):
    """Tune holds several while many workers start; when they have started, it asks for one worker at a time."""
    *_, lock, work, driver, events = work_of(tmp_path, num_trials=8, num_cpus=1)
    sizes = iter([5])

    def held(wrapped):
        wrapped._tune_controller.update_max_pending_trials(next(sizes, 1))

    monkeypatch.setattr(stopping, "trial_for_a_free_actor", held)

    def spent():
        return "all is spent" if any(isinstance(event, Started) for event in events) else None

    try:
        assert place(work, replace(driver, spent=spent)) == "all is spent"
    finally:
        lock.release()
    assert len([event for event in events if isinstance(event, Ended)]) == 1


class NotedWhereLoaded:
    """Writes down each process that loads it, as one does that becomes a worker of a trainable which holds it."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return note_process, (self._path,)


def note_process(path):
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return NotedWhereLoaded(path)


def test_a_worker_that_starts_beside_short_trials_is_let_start(tmp_path, monkeypatch):
    """One of two workers dies; the other's trials are over in less time than the next one takes to start."""
    *_, lock, work, driver, events = work_of(tmp_path, num_trials=40, num_cpus=2)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    worked, run_trial, started = tmp_path / "worked", placing._trainable, NotedWhereLoaded(tmp_path / "started")

    def noted(config, _started=started):
        note_process(worked)
        workers = worked.read_text().split()
        if list(dict.fromkeys(workers))[1:] == [str(os.getpid())] and workers.count(str(os.getpid())) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        run_trial(config)
        if len(set(workers)) < 3:
            time.sleep(0.5)  # short trials, but not all over before there is a third worker

    monkeypatch.setattr(placing, "_trainable", noted)
    try:
        assert place(work, driver) is None
    finally:
        lock.release()
    assert {event.status.state for event in events if isinstance(event, Ended)} == {"finished"}
    trials = Counter(worked.read_text().split())
    assert set((tmp_path / "started").read_text().split()) - {str(os.getpid())} == set(trials)
    assert len(trials) == 3
    assert min(trials.values()) > 2
