"""Libraries' chatter stays out of the terminal, whoever prints it and how."""

import subprocess
import sys

SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from orchestrator.terminal import chatter_to
print("before", flush=True)
with chatter_to(Path(sys.argv[1])) as console:
    print("python chatter")
    os.write(1, b"descriptor chatter\\n")
    os.write(2, b"error chatter\\n")
    subprocess.run(["echo", "child chatter"])
    console.print("for people")
print("after")
"""


def test_only_what_is_for_people_reaches_the_terminal(tmp_path):
    log = tmp_path / "logs" / "run.log"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(log)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["before", "for people", "after", ""]
    assert done.stderr == ""
    written = log.read_text()
    for what in ("python chatter", "descriptor chatter", "error chatter", "child chatter"):
        assert what in written
    assert "for people" not in written
