"""The script that CI runs: the shell can read it, it runs the two commands it promises, and no more makes it red."""

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "run"
FOUND = ("apt-get", "chromium", "initdb", "kpsewhich", "pdftotext")
NOT_BUILT = "kube-apiserver is not built, and tests that need it will be skipped: "


def test_the_shell_reads_it_and_it_runs_what_it_promises():
    read = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")
    lines = SCRIPT.read_text().splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make check", "make test"]
    assert lines[-1] == "make test"


@pytest.fixture
def run(tmp_path):
    """Run the script where all programs are there, with a build of the API server and a make that are these scripts."""

    def run(build, make="echo make $*", limit_s=60):
        repository, programs = tmp_path / "repository", tmp_path / "bin"
        (repository / ".ci").mkdir(parents=True)
        (repository / "tests" / "kubernetes").mkdir(parents=True)
        script, num_limits = re.subn(r"timeout \d+ ", f"timeout {limit_s} ", SCRIPT.read_text())
        assert num_limits == 1
        (repository / ".ci" / "run").write_text(script)
        (repository / "tests" / "kubernetes" / "build_api_server.py").write_text(build)
        programs.mkdir()
        for name in FOUND:
            shutil.copy(shutil.which("true"), programs / name)
        (programs / "make").write_text(f"#!/bin/sh\n{make}\n")
        (programs / "make").chmod(0o755)
        variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
        command = ["bash", str(repository / ".ci" / "run")]
        return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=60)

    return run


@pytest.mark.parametrize(
    ("build", "limit_s", "told"),
    [
        ("print('/cache')", 60, []),
        ("import sys; sys.exit('no sources: E: none')", 60, [f"{NOT_BUILT}no sources: E: none"]),
        ("import signal; signal.pause()", 1, [f"{NOT_BUILT}it took more than 18 minutes"]),
    ],
)
def test_tests_run_with_an_api_server_or_without_one_which_is_said(run, build, limit_s, told):
    done = run(build, limit_s=limit_s)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["make check", *told, "make test"]


def test_a_check_that_fails_ends_the_build_too(run, tmp_path):
    done = run(f"import os, signal; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); signal.pause()",
               make=f"until [ -s {tmp_path}/pid ]; do sleep 0.01; done; exit 3")  # fmt: skip
    assert done.returncode == 3
    pid = int((tmp_path / "pid").read_text())
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=30)
