"""The script that CI runs: the shell can read it, and it ends with the two commands that it promises."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"


def test_the_shell_reads_it_and_it_runs_what_it_promises():
    read = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")
    assert SCRIPT.read_text().splitlines()[-2:] == ["make check", "make test"]
