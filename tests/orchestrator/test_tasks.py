"""Tasks on a real Ray of one CPU: what begins, what does not, and how a death, or a fault of ours, is told."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from out_of_memory import cgroup
from ray import cloudpickle

from orchestrator.cluster import Cluster, connected, nodes
from orchestrator.events import Ended, Retried, Started
from orchestrator.interrupt import Interrupt
from orchestrator.machine import oom_kills
from orchestrator.patience import Patience
from orchestrator.requests import Request
from orchestrator.retries import Retries
from orchestrator.tasks import Tasks
from results.layout import Status
from trainers.failures import REMEDY

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not know this module

ONE_CPU = Request(cpus=1)


@pytest.fixture(scope="module", autouse=True)
def one_cpu():
    with connected(Cluster(num_cpus=1), on_head_lost=pytest.fail):
        yield


def finish(*_):
    return Status(state="finished", started_at="")


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def swallow(limit):
    """Take memory in a control group that has none to give, so that the kernel ends this process."""
    file = Path(limit)
    (file.parent / "cgroup.procs").write_text(str(os.getpid()))
    file.write_text("1000000")
    taken = bytearray(1 << 30)
    taken[:: 1 << 12] = b"x" * len(taken[:: 1 << 12])
    return finish()


def tasks(function, arguments, listener, *, retries=0, is_closed=lambda: False):
    return Tasks(
        function,
        arguments,
        request=ONE_CPU,
        retries=Retries(limit=retries),
        patience=Patience(ONE_CPU, timeout_s=0, nodes=nodes, say=print),
        listener=listener,
        record_failure=lambda _, reason: Status(state="failed", reason=reason, started_at=""),
        is_closed=is_closed,
    )


def told(function, arguments, **more):
    """All events, when all have ended."""
    events = []
    assert tasks(function, arguments, events.append, **more).wait(Interrupt()) == ()
    return events


def test_each_is_told_of_when_it_begins_and_ends():
    events = told(finish, {"a": (), "b": ()})
    assert [type(event) for event in events] == [Started, Ended, Started, Ended]  # one has its place at a time
    assert {event.key for event in events} == {"a", "b"}
    assert all(event.status.state == "finished" for event in events if isinstance(event, Ended))


def test_when_nothing_may_begin_any_more_what_runs_ends_and_the_rest_is_named():
    events, begun = [], threading.Event()

    def hear(event):
        events.append(event)
        begun.set()

    keys = ["a", "b", "c", "d"]
    left = tasks(finish, dict.fromkeys(keys, ()), hear, is_closed=begun.is_set).wait(Interrupt())
    started = [event.key for event in events if isinstance(event, Started)]
    ended = [event.key for event in events if isinstance(event, Ended)]
    assert len(started) < len(keys)
    assert ended == started
    assert sorted([*started, *left]) == keys


def test_none_begins_where_that_is_so_from_the_start():
    events = []
    left = tasks(finish, {"a": (), "b": ()}, events.append, is_closed=lambda: True).wait(Interrupt())
    assert (events, sorted(left)) == ([], ["a", "b"])


def test_a_process_that_dies_is_tried_again_and_then_given_up():
    events = told(die, {"a": ()}, retries=1)
    assert [type(event) for event in events] == [Started, Retried, Started, Ended]
    assert events[-1].status.state == "failed"
    assert events[-1].status.reason.startswith("worker died: ")


def test_a_fault_while_watching_is_raised_for_who_waits():
    def hear(event):
        if isinstance(event, Ended):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        tasks(finish, {"a": ()}, hear).wait(Interrupt())


def test_what_the_kernel_ended_ran_out_of_memory():
    with cgroup(f"densesweep-tasks-{os.getpid()}") as limit:
        before = oom_kills()
        [_, ended] = told(swallow, {"a": (str(limit),)})
        if oom_kills() == before:
            pytest.skip("the kernel does not count what it ends here")
    assert ended.status.reason == f"out of memory: the kernel ended the worker; {REMEDY}"
