"""How the user calls this program, for the commands that its messages name."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def command(*arguments: str) -> str:
    """A command line to copy: `densesweep ARGUMENTS`, by its path where the shell would not find it."""
    return shlex.join([_program(), *arguments])


def _program() -> str:
    called = Path(sys.argv[0])
    if called.name != "densesweep" or shutil.which("densesweep"):
        return "densesweep"
    path = called.resolve()
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
