"""The measuring itself: who runs when, what a block holds, and that a failure is told."""

import os
import time

import pytest

from tests.benchmarks.harness import Block, Contestant, ContestantError, in_turn, status_bytes
from tests.benchmarks.spread import per_second, ratio_of, speedup


def working(job, gate):
    """Units that write a line each and use a known time of the processor."""
    path, name, cpu_s = job
    for number in range(1000):
        until = time.process_time() + cpu_s
        while time.process_time() < until:
            pass
        with path.open("a") as file:
            file.write(f"{name}{number} ")
        gate.unit_done(float(number))


def failing(job, gate):
    gate.unit_done()
    raise ValueError("no more of this")


def ending(job, gate):
    gate.unit_done()


def filling(num_bytes, gate):
    gate.memory_from_here()
    while True:
        os.urandom(num_bytes)
        gate.unit_done()


def telling_environment(job, gate):
    job.write_text(os.environ["BENCHMARKED"])
    for _ in range(2):
        gate.unit_done()


def contestants(path, **cpu_s):
    return [Contestant(name=name, run=working, job=(path, name, seconds)) for name, seconds in cpu_s.items()]


def test_one_works_at_a_time_and_the_order_turns_round(tmp_path):
    path = tmp_path / "log"

    blocks = in_turn(contestants(path, a=0.0, b=0.0), rounds=3, units={"a": 2, "b": 1})

    done = path.read_text().split()
    assert sorted(done[:2]) == ["a0", "b0"]  # both warm up, in any order
    assert done[2:] == ["a1", "a2", "b1", "b2", "a3", "a4", "a5", "a6", "b3"]
    assert [block.values for block in blocks["a"]] == [(0.0,), (1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]


def test_the_ratio_is_that_of_the_work(tmp_path):
    blocks = in_turn(contestants(tmp_path / "log", a=0.02, b=0.06), rounds=3, units={"a": 2, "b": 2})

    assert speedup(blocks["a"][1:], blocks["b"][1:], "cpu").median == pytest.approx(3, rel=0.2)
    assert per_second(blocks["a"][1:], 2, "cpu") == pytest.approx(50, rel=0.2)
    assert all(block.wall_s >= block.cpu_s * 0.9 for block in blocks["a"])


@pytest.mark.parametrize(("run", "said"), [(failing, "no more of this"), (ending, "before the parent had enough")])
def test_a_contestant_that_fails_is_told(run, said):
    with pytest.raises(ContestantError, match=f"(?s)bad.*{said}"):
        in_turn([Contestant(name="bad", run=run, job=None)], rounds=1, units={"bad": 1})


def test_the_environment_is_the_contestants_alone(tmp_path):
    told = tmp_path / "told"
    one = Contestant(name="one", run=telling_environment, job=told, environment={"BENCHMARKED": "yes"})

    in_turn([one], rounds=1, units={"one": 1})

    assert told.read_text() == "yes"
    assert "BENCHMARKED" not in os.environ


@pytest.mark.skipif(status_bytes("VmHWM") is None, reason="this system does not tell a process's peak memory")
def test_a_peak_is_that_of_the_work(tmp_path):
    some = [Contestant(name=str(mib), run=filling, job=mib * 2**20) for mib in (64, 128)]

    blocks = in_turn(some, rounds=1, units={"64": 1, "128": 1})

    assert blocks["64"][-1].peak_bytes == pytest.approx(64 * 2**20, rel=0.1)
    assert blocks["128"][-1].peak_bytes == pytest.approx(128 * 2**20, rel=0.1)


def test_spread_of_ratios():
    ratio = ratio_of([1.0, 2.0, 3.0])

    assert (ratio.smallest, ratio.median, ratio.largest) == (1.0, 2.0, 3.0)
    assert 1.0 <= ratio.low <= 2.0 <= ratio.high <= 3.0
    assert ratio_of([1.5]).low == ratio_of([1.5]).high == 1.5
    with pytest.raises(ValueError, match="at least one"):
        ratio_of([])


def test_a_speedup_pairs_neighbouring_blocks():
    ours = [Block(wall_s=1.0, cpu_s=1.0, values=()), Block(wall_s=10.0, cpu_s=5.0, values=())]
    theirs = [Block(wall_s=2.0, cpu_s=3.0, values=()), Block(wall_s=20.0, cpu_s=15.0, values=())]

    assert speedup(ours, theirs, "wall").smallest == speedup(ours, theirs, "wall").largest == 2.0
    assert speedup(ours, theirs, "cpu").median == 3.0
