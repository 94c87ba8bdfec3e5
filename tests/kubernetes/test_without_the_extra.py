"""What works without the client of the Kubernetes API, and what the rest says."""

import os
import subprocess
import sys
from pathlib import Path

from sweeps_on_clusters import write

ROOT = Path(__file__).parents[2]
HIDDEN = """
import sys
sys.modules["lightkube"] = None
from orchestrator.cli import main
sys.argv = ["densesweep", *sys.argv[1:]]
main()
"""


def densesweep(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-c", HIDDEN, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


def test_each_command_that_needs_it_says_so_in_one_line(tmp_path):
    file = str(write(tmp_path))
    named = [("status", "small"), ("logs", "small"), ("cancel", "small"), ("resubmit", "small"), ("doctor",)]
    for arguments in (("submit", file), ("submit", file, "--dry-run=server"), *named):
        done = densesweep(tmp_path, "k8s", *arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "pip install 'densesweep[k8s]'" in done.stderr


def test_rendering_and_a_dry_run_of_the_client_need_it_not(tmp_path):
    file = str(write(tmp_path))
    assert "kind: RayJob" in densesweep(tmp_path, "k8s", "render", file).stdout
    done = densesweep(tmp_path, "k8s", "submit", file, "--dry-run=client")
    assert done.returncode == 0, done.stderr
    assert "RayJob small in namespace densesweep: would be sent" in done.stdout
    assert "nothing was sent" in done.stdout
