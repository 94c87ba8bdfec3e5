"""What a sweep may spend, counted from its events."""

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
