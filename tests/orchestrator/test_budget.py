"""What a sweep may spend, counted from its events."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

from orchestrator.budget import Budget, Spending, Spent, affordable, read_spent, write_spent
from orchestrator.events import Ended, Retried, Started
from results.layout import Status
from results.store import open_store

HOUR_S = 3600.0


def _spending(clock, *, before=0.0, keep=lambda spent: None, **budget):
    return Spending(
        Budget(**budget), before=Spent(gpu_s=before), gpus={"a": 2, "b": 0.5}, keep=keep, clock=lambda: clock[0]
    )


def _ended(key, started="2026-01-01T00:00:00+00:00", finished="2026-01-02T00:00:00+00:00"):
    return Ended(key=key, status=Status(state="finished", started_at=started, finished_at=finished))


def test_gpu_hours_of_all_tries_and_of_earlier_runs_count():
    clock, kept = [0.0], []
    spending = _spending(clock, before=HOUR_S, keep=kept.append, gpu_hours=4)
    spending(Started(key="a"))
    clock[0] = 0.5 * HOUR_S
    spending(Retried(key="a", reason="died"))  # 2 GPUs for half an hour
    assert kept == [Spent(gpu_s=2 * HOUR_S)]
    spending(Started(key="b"))
    clock[0] = 2.5 * HOUR_S
    spending(_ended("b"))  # half a GPU for two hours
    assert kept[-1] == Spent(gpu_s=3 * HOUR_S)
    assert spending.reason() is None
    spending(Started(key="a"))
    clock[0] = 3 * HOUR_S  # what runs counts too
    assert spending.reason() == "the budget of 4 GPU-hours is spent (budget.gpu_hours)"


def test_the_time_that_a_probe_waits_is_not_spent():
    clock = [0.0]
    spending = _spending(clock, gpu_hours=1)
    spending(Started(key="b"))
    clock[0] = 100 * HOUR_S
    spending(_ended("b", finished="2026-01-01T00:00:09+00:00"))
    assert spending.spent() == Spent(gpu_s=5.0)


def test_wall_hours_are_of_one_run():
    clock = [50.0]
    spending = _spending(clock, before=9 * HOUR_S, wall_hours=2)
    clock[0] += 2 * HOUR_S - 1
    assert spending.reason() is None
    clock[0] += 1
    assert spending.reason() == "this run's budget of 2 hours is spent (budget.wall_hours)"


def test_trained_trials_are_counted_over_all_runs():
    left = ["a", "b", "c"]
    assert affordable(left, num_trained=2, budget=Budget(trials=4)) == ["a", "b"]
    assert affordable(left, num_trained=7, budget=Budget(trials=4)) == []
    assert affordable(left, num_trained=2, budget=Budget()) == left


def test_what_is_spent_is_kept_in_the_sweep_folder(tmp_path):
    store = open_store(str(tmp_path))
    assert read_spent(store) == Spent()
    write_spent(store, Spent(gpu_s=12.5))
    assert read_spent(store) == Spent(gpu_s=12.5)


def test_what_runs_is_written_down_while_it_runs_and_at_the_end():
    clock, kept = [0.0], Queue()
    spending = _spending(clock, before=100.0, keep=kept.put)
    with spending.written_down(every_s=0.001):
        spending(Started(key="a"))
        clock[0] = 50.0
        while kept.get(timeout=60) != Spent(gpu_s=200.0):  # 2 GPUs, and nothing has ended
            pass
        clock[0] = 80.0  # Ctrl-C: it never ends
    last = None
    while not kept.empty():
        last = kept.get()
    assert last == Spent(gpu_s=260.0)


def test_a_run_without_gpus_writes_nothing_down():
    kept = []
    spending = _spending([0.0], keep=kept.append)
    with spending.written_down(every_s=0.001):
        spending(Started(key="cpu"))
        spending(_ended("cpu"))
    assert kept == []


_HOLDS_A_GPU = """
import sys
from orchestrator.budget import Budget, Spending, Spent, write_spent
from orchestrator.events import Started
from results.store import open_store

store = open_store(sys.argv[1])
spending = Spending(Budget(), before=Spent(), gpus={"a": 1}, keep=lambda spent: write_spent(store, spent))
with spending.written_down(every_s=0.01):
    spending(Started(key="a"))
    print("started", flush=True)
    sys.stdin.read()
"""


def test_a_driver_that_is_killed_loses_only_what_came_after_the_last_write(tmp_path):
    command = [sys.executable, "-c", _HOLDS_A_GPU, str(tmp_path)]
    driver = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True
    )
    store = open_store(str(tmp_path))
    try:
        assert driver.stdout.readline() == "started\n"
        while driver.poll() is None and read_spent(store).gpu_s == 0:
            pass
        driver.send_signal(signal.SIGKILL)
    finally:
        driver.kill()
        driver.communicate()
    assert read_spent(store).gpu_s > 0


def test_another_thread_never_sees_an_event_half_counted():
    """A second thread asks while the first is between forgetting that a try runs and adding what it held."""
    now, seen, answered = [0.0], [], threading.Event()

    def ask():
        seen.append(spending.spent())
        answered.set()

    def clock():
        if is_counting and threading.current_thread() is threading.main_thread() and not askers:
            askers.append(threading.Thread(target=ask))
            askers[0].start()
            answered.wait(timeout=0.3)  # what is safe lets it wait
        return now[0]

    is_counting, askers = False, []
    spending = Spending(Budget(), before=Spent(), gpus={"a": 1}, keep=lambda _: None, clock=clock)
    spending(Started(key="a"))
    now[0], is_counting = 100.0, True
    spending(Retried(key="a", reason="died"))
    askers[0].join()
    assert seen == [Spent(gpu_s=100.0)]
