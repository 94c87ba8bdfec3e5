"""Why there is no sweep where a user names one: in words, with the nearest name that is there."""

import os
from pathlib import Path

from orchestrator.program import command
from results.layout import SWEEP_RECORD
from results.store import local_folder
from search_spaces.problems import near_name

_FILES = (".yaml", ".yml")
_MADE_BY = "a sweep is made by: densesweep run FILE"


def why_no_sweep(named: str, uri: str) -> str:
    """What is wrong with `named`, a folder or a sweep file, whose sweep would lie at `uri`."""
    folder = local_folder(uri)
    if named != uri:
        return (
            f"is not there: {named} was not run into it ({command('run', named)}), or its folder was named by "
            "--storage (name that folder)"
        )
    if folder is None or folder.exists():
        return f"is no sweep folder ({_MADE_BY})"
    what = "sweep file" if folder.suffix in _FILES else "folder"
    near = near_name(folder.name, _like(folder))
    hint = f"did you mean '{folder.parent / near}'?" if near else _MADE_BY
    return f"there is no such {what} ({hint})"


def _like(path: Path) -> list[str]:
    """What lies beside it and could be meant: sweep folders, or sweep files."""
    try:
        beside = sorted(path.parent.iterdir())
    except OSError:  # it is not there, or nobody may look into it
        return []
    if path.suffix in _FILES:
        return [found.name for found in beside if found.suffix in _FILES]
    return [found.name for found in beside if os.access(found / SWEEP_RECORD, os.R_OK)]
