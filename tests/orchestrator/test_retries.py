"""How often, and when, a trial that died is tried again."""

from orchestrator.retries import Retries, pause_s


def test_a_trial_is_tried_again_as_often_as_the_limit_says():
    retries = Retries(limit=2)
    assert [retries.died("a") for _ in range(3)] == [True, True, False]
    assert retries.died("b")  # each is counted for itself


def test_none_is_tried_again_where_the_limit_is_none():
    retries = Retries(limit=0)
    retries.stepped("a", 50)
    assert not retries.died("a")


def test_a_try_that_got_further_than_all_before_counts_anew():
    retries = Retries(limit=1)
    retries.stepped("a", 10)
    assert retries.died("a")
    retries.stepped("a", 11)
    assert retries.died("a")
    retries.stepped("a", 8)  # resumed, and did not get as far as before
    assert not retries.died("a")


def test_pauses_grow_to_a_minute():
    now = 0.0
    retries = Retries(limit=9, clock=lambda: now)
    pauses = []
    for _ in range(5):
        retries.died("a")
        pauses.append(retries.ready_in_s("a"))
        now += 1000
        assert retries.ready_in_s("a") == 0
    assert pauses == [1, 4, 16, 60, 60] == [pause_s(deaths) for deaths in range(1, 6)]
    assert retries.ready_in_s("b") == 0
