"""Where a sweep lies."""

from pathlib import Path

from search_spaces.schema import SweepFile


def storage_of(sweep: SweepFile, override: str | None = None) -> str:
    """The sweep folder: given on the command line, else in the file, else `sweeps/NAME` in the working directory."""
    return override or sweep.storage or str(Path("sweeps") / sweep.name)
