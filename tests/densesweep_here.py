"""The command line in the tests' own process: a process of its own imports for two seconds what is imported here once.

That a command imports no framework, and that the console script is there, are tests with processes of their own.
"""

import contextlib
import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from huggingface_hub import constants

from orchestrator.cli import main


def densesweep_here(
    *arguments: str, folder: Path, variables: Mapping[str, str] | None = None, hub: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `densesweep ARGUMENTS` in a folder; what it printed, and its code.

    What is no problem of the input comes out as it is raised, as a process would print its traceback.

    Args:
        arguments: those of the command line.
        folder: the working directory.
        variables: more variables in the environment, for what reads them at each call.
        hub: the cache of the Hugging Face hub, which is out of reach then; None for the tests' own.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["densesweep", *arguments])
        for name, value in (variables or {}).items():
            patch.setenv(name, value)
        if hub is not None:  # its client read the environment when it was imported
            patch.setattr(constants, "HF_HUB_CACHE", str(hub))
            patch.setattr(constants, "HF_HUB_OFFLINE", True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(["densesweep", *arguments], code, out.getvalue(), err.getvalue())
