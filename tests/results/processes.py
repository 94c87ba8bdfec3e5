"""Second processes of tests: Python code that runs beside the test and says lines that it waits for."""

import subprocess
import sys


def python(code: str, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen) -> str:
    """The next line a process prints; waits for it, and fails with what it said where it ended instead."""
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line
