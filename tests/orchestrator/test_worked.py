"""How long several tasks were worked at: while at least one ran, and not while they wait for a place."""

import pytest

from orchestrator.events import Ended, Retried, Started
from orchestrator.pools import Worked
from results.layout import Status

FINISHED = Status(state="finished", started_at="")


@pytest.fixture
def at():
    """What happens when, by a clock of its own."""
    now = [0.0]
    worked = Worked(clock=lambda: now[0])

    def happens(second, event):
        now[0] = second
        worked(event)
        return worked.seconds

    return happens


def test_tasks_one_after_the_other_with_a_wait_between(at):
    at(10.0, Started(key="a"))
    assert at(13.0, Ended(key="a", status=FINISHED)) == 3.0
    at(60.0, Started(key="b"))
    assert at(62.0, Ended(key="b", status=FINISHED)) == 5.0


def test_tasks_at_once_count_once(at):
    at(1.0, Started(key="a"))
    at(2.0, Started(key="b"))
    at(4.0, Ended(key="a", status=FINISHED))
    assert at(7.0, Ended(key="b", status=FINISHED)) == 6.0


def test_a_death_ends_the_work_until_the_next_try(at):
    at(0.0, Started(key="a"))
    assert at(5.0, Retried(key="a", reason="died")) == 5.0
    at(50.0, Started(key="a"))
    assert at(51.0, Ended(key="a", status=FINISHED)) == 6.0


def test_what_found_no_place_was_not_worked_at(at):
    assert at(600.0, Ended(key="a", status=FINISHED)) == 0.0
