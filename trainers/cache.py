"""The folder for what can be rebuilt: converted weights, built collections, hashes of files."""

import contextlib
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The folder that the variable DENSESWEEP_CACHE names, else ~/.cache/densesweep. It may not exist yet."""
    named = os.environ.get("DENSESWEEP_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "densesweep"


def remember(file: Path, text: str) -> None:
    """Write a small file of the cache, whole or not at all. Where the cache cannot be written, that is all right."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as temporary:
            written = Path(temporary.name)
            try:
                temporary.write(text)
                temporary.flush()
                written.replace(file)
            except OSError:  # a full disk must not be filled further by what did not fit
                written.unlink()
                raise
