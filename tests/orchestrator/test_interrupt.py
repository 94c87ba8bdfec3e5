"""Ctrl-C: once sets the flag, twice raises; SIGTERM is a first Ctrl-C."""

import os
import signal

import pytest
from small_sweeps import DEADLINE_S, Sweep

from orchestrator.interrupt import interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ctrl_c_ends(number):
    said = []
    before = signal.getsignal(signal.SIGINT)
    with interruptible(lambda: said.append("stopping"), lambda: said.append("at once")) as interrupt:
        assert not interrupt.asked
        os.kill(os.getpid(), number)
        assert interrupt.asked
        assert said == ["stopping"]
        os.kill(os.getpid(), signal.SIGTERM)  # a second SIGTERM changes nothing
        assert said == ["stopping"]
        os.kill(os.getpid(), signal.SIGINT)
        assert said == ["stopping", "at once"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("verb", ["run", "probe"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_before_it_places_anything_says_how_to_go_on(make_sweep, number, verb):
    """Its file is a pipe, from which nothing comes: that it is opened says that the run is reading it."""
    sweep = make_sweep()
    sweep.file.unlink()
    os.mkfifo(sweep.file)
    driver = sweep.start(verb, sweep.file.name)
    with sweep.file.open("wb"):  # waits for the reader
        driver.send_signal(number)
        out, err = driver.communicate(timeout=60)
    told, other = (out, err) if verb == "run" else (err, out)  # `probe` prints its table alone
    assert (driver.returncode, other) == (130, "")
    assert f"Stopped. To go on where it stopped: densesweep {verb} sweep.yaml" in told


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_while_it_trains_ends_after_a_step_and_says_how_to_go_on(make_sweep, number):
    sweep = make_sweep(training={"steps": 2000})
    driver = sweep.start("run", sweep.file.name)
    sweep.wait_for(Sweep.training_checkpoints)
    driver.send_signal(number)
    out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 130, err
    assert out.splitlines()[-1] == "Stopped. To go on where it stopped: densesweep run sweep.yaml"
    assert sweep.training_checkpoints()
