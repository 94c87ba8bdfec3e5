"""Operations in a thread: in order, skipped after a failure, tried again after waits that double."""

import threading

import pytest

from orchestrator import background
from orchestrator.background import Background


@pytest.fixture
def thread():
    started = Background("test")
    yield started
    started.close(10)


def fail():
    raise OSError("away\nsecond line")


def test_after_a_failure_operations_are_skipped_until_one_that_recovers_succeeds(thread):
    done = []
    for name, run, recovers in (
        ("a", lambda: done.append("a"), False),
        ("b", fail, False),
        ("c", lambda: done.append("c"), False),
        ("d", fail, True),
    ):
        thread.submit(name, run, recovers=recovers)
    assert thread.flush(10)
    assert (done, thread.failure) == (["a"], "d: OSError: away")
    thread.submit("e", lambda: done.append("e"), recovers=True)
    thread.submit("f", lambda: done.append("f"))
    assert thread.flush(10)
    assert (done, thread.failure) == (["a", "e", "f"], None)


def test_waits_between_tries_double_up_to_a_limit(thread, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(background.time, "monotonic", lambda: now)
    assert not thread.take_retry()  # nothing has failed
    waits = []
    for _ in range(9):
        thread.submit("try", fail, recovers=True)
        assert thread.flush(10)
        failed_at = now
        assert not thread.take_retry()
        while not thread.take_retry():
            now += 1.0
        assert not thread.take_retry()  # one try for each wait
        waits.append(now - failed_at)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    thread.submit("try", lambda: None, recovers=True)
    assert thread.flush(10)
    assert not thread.take_retry()
    thread.submit("try", fail)
    assert thread.flush(10)
    now += 5.0
    assert thread.take_retry()  # from the first wait again


def test_an_end_that_does_not_come_in_time_is_said():
    gate = threading.Event()
    stuck = Background("stuck")
    stuck.submit("wait", gate.wait)
    assert not stuck.close(0.0)
    assert stuck.failure == "still busy after 0 s"
    gate.set()
