"""Ctrl-C: once sets the flag, twice raises; SIGTERM is a first Ctrl-C."""

import os
import signal

import pytest

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
