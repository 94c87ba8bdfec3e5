"""The folder for what can be rebuilt: converted weights, built collections, hashes of files."""

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder that the variable DENSESWEEP_CACHE names, else ~/.cache/densesweep. It may not exist yet."""
    named = os.environ.get("DENSESWEEP_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "densesweep"


def remember(file: Path, text: str) -> None:
    """Write a small file of the cache, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as temporary:
        temporary.write(text)
    Path(temporary.name).replace(file)
