"""What the queue hands to Tune: each trial once, what died again after its pause, never more than may run."""

from ray.tune.search import Searcher

from orchestrator.retries import Retries
from orchestrator.trial_queue import TrialQueue


def _queue(keys, *, at_once=None, closed=None, limit=1, clock=None, waits_for=None):
    retries = Retries(limit=limit, clock=lambda: (clock or [0.0])[0])
    queue = TrialQueue(
        keys,
        config={"store_uri": "here"},
        retries=retries,
        at_once=at_once,
        is_closed=lambda: bool(closed),
        waits_for=waits_for,
    )
    return queue, retries


def test_each_is_handed_out_once_in_order_with_what_all_are_given():
    queue, _ = _queue(["a", "b"])
    assert queue.suggest("1") == {"store_uri": "here", "trial_id": "a"}
    assert queue.suggest("2")["trial_id"] == "b"
    assert queue.suggest("3") is None  # what is out may die, and come again
    queue.on_trial_complete("1")
    queue.on_trial_complete("2")
    assert queue.suggest("3") == Searcher.FINISHED


def test_no_more_are_out_than_may_run_at_once():
    queue, _ = _queue(["a", "b", "c"], at_once=2)
    assert queue.suggest("1")
    assert queue.suggest("2")
    assert queue.suggest("3") is None
    queue.on_trial_complete("1")
    assert queue.suggest("3")["trial_id"] == "c"


def test_what_died_comes_again_after_its_pause_and_lets_others_go_first():
    clock = [0.0]
    queue, retries = _queue(["a", "b"], clock=clock)
    queue.suggest("1")
    queue.on_trial_complete("1", error=True)
    assert retries.died("a")
    queue.again("a")
    assert queue.suggest("2")["trial_id"] == "b"
    queue.on_trial_complete("2")
    assert queue.suggest("3") is None
    clock[0] = 1.0
    assert queue.suggest("3")["trial_id"] == "a"


def test_a_closed_queue_hands_out_nothing():
    closed = []
    queue, _ = _queue(["a", "b"], closed=closed)
    assert queue.suggest("1")
    closed.append(True)
    assert queue.suggest("2") == Searcher.FINISHED


def test_what_goes_on_from_another_waits_until_that_has_ended():
    queue, _ = _queue(["long", "longer", "short", "other"], waits_for={"long": "short", "longer": "long"})
    assert queue.suggest("1")["trial_id"] == "short"
    assert queue.suggest("2")["trial_id"] == "other"
    assert queue.suggest("3") is None
    queue.on_trial_complete("2")
    assert queue.suggest("3") is None
    queue.on_trial_complete("1")
    assert queue.suggest("3")["trial_id"] == "long"
    assert queue.suggest("4") is None
    queue.on_trial_complete("3")
    assert queue.suggest("4")["trial_id"] == "longer"


def test_it_waits_for_the_next_try_of_one_that_died_and_for_none_that_was_given_up():
    clock = [0.0]
    queue, retries = _queue(["short", "long"], clock=clock, waits_for={"long": "short"})
    queue.suggest("1")
    assert retries.died("short")
    queue.again("short")
    queue.on_trial_complete("1", error=True)
    assert queue.suggest("2") is None
    clock[0] = 1.0
    assert queue.suggest("2")["trial_id"] == "short"
    assert not retries.died("short")
    queue.on_trial_complete("2", error=True)
    assert queue.suggest("3")["trial_id"] == "long"


def test_it_waits_for_none_that_is_not_left():
    queue, _ = _queue(["long"], waits_for={"long": "short"})
    assert queue.suggest("1")["trial_id"] == "long"
