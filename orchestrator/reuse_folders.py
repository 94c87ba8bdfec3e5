"""The other sweep folders that a sweep file names to take over from."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from results.layout import SWEEP_RECORD
from results.store import Store, local_folder, open_existing_store
from search_spaces.problems import InputError, Problem

_HOLDS = ("trials", "probes", "pools", "pool_parts", "studies")  # what may be taken over; some are made without a sweep


def opened_sources(uris: Sequence[str], where: str) -> list[Store]:
    """The folders to reuse from.

    Raises:
        InputError: one of them is not there.
    """
    if problems := list(reuse_problems(uris, where)):
        raise InputError(problems)
    return [store for uri in uris if (store := open_existing_store(uri))]


def reuse_problems(uris: Sequence[str], where: str) -> Iterator[Problem]:
    """Folders that are not there, or hold no sweep."""
    for index, uri in enumerate(uris):
        try:
            store = open_existing_store(uri)
        except InputError as error:
            yield from (
                Problem(where=where, key=f"reuse[{index}]", message=problem.message) for problem in error.problems
            )
            continue
        if store is None or not (store.exists(SWEEP_RECORD) or any(map(store.list, _HOLDS))):
            yield Problem(where=where, key=f"reuse[{index}]", message=f"there is no sweep folder {uri}{_from(uri)}")


def _from(uri: str) -> str:
    """From where a relative path starts: not from the file's folder, as paths of data do."""
    folder = local_folder(uri)
    is_relative = folder is not None and not folder.is_absolute()
    return f" in the working directory {Path.cwd()}" if is_relative else ""
