"""The folder for what can be rebuilt: converted weights, built collections, hashes of files."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder that the variable DENSESWEEP_CACHE names, else ~/.cache/densesweep. It may not exist yet."""
    named = os.environ.get("DENSESWEEP_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "densesweep"
