"""What a run prints is kept in its sweep folder, in whole, also of one that is killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from orchestrator.kept_logs import kept_outputs
from results.store import open_store

ROOT = Path(__file__).parents[2]
KEEPER = """
import sys
from orchestrator.kept_output import run_kept
from results.store import open_store
sys.exit(run_kept([sys.executable, "-c", sys.argv[2]], open_store(sys.argv[1])))
"""


@pytest.fixture
def keep(tmp_path):
    """Start a script under the keeper of its output."""

    def start(script):
        command = [sys.executable, "-c", KEEPER, str(tmp_path / "sweep"), textwrap.dedent(script)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    return start


def kept(tmp_path):
    store = open_store(str(tmp_path / "sweep"))
    [key] = kept_outputs(store)
    return store.read(key)


def test_both_streams_are_shown_and_kept(keep, tmp_path):
    process = keep("import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"one\ntwo\n")
    assert kept(tmp_path) == out


def test_sigterm_is_handed_on_and_the_last_words_are_kept(keep, tmp_path):
    process = keep("""
        import signal, sys, time
        def end(number, frame):
            print("stopped cleanly", flush=True)
            sys.exit(130)
        signal.signal(signal.SIGTERM, end)
        print("ready", flush=True)
        time.sleep(60)
    """)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"stopped cleanly\n")
    assert kept(tmp_path) == b"ready\nstopped cleanly\n"


def test_one_that_kills_itself_leaves_its_output_and_its_signal(keep, tmp_path):
    process = keep("import os, signal; print('last', flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL
    assert kept(tmp_path) == b"last\n"


def test_what_lives_on_with_the_pipe_holds_nobody_up(keep, tmp_path):
    process = keep("""
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(50)"])
        print(child.pid, flush=True)
    """)
    pid = int(process.stdout.readline())
    try:
        assert process.wait(timeout=30) == 0
        assert kept(tmp_path) == f"{pid}\n".encode()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_folder_that_takes_nothing_ends_no_run(keep, tmp_path):
    process = keep(f"""
        import shutil
        shutil.rmtree({str(tmp_path / "sweep")!r})
        open({str(tmp_path / "sweep")!r}, "w").close()
        print("goes on", flush=True)
    """)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"goes on\n")
    assert b"note: this output is not kept in" in err
