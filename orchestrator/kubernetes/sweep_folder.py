"""The sweep folder of a RayJob, as it is seen from here."""

from orchestrator.kubernetes.api import Object
from orchestrator.kubernetes.resource_names import STORAGE_ANNOTATION
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes
from results.store import Store, local_folder, open_existing_store
from search_spaces.problems import InputError


class UnseenError(Exception):
    """The sweep folder cannot be read from here: one line that says why, and what to do."""


def folder_of(rayjob: Object) -> str:
    """Where it lies, as its pods name it. Raises UnseenError where the RayJob does not say."""
    uri = (rayjob["metadata"].get("annotations") or {}).get(STORAGE_ANNOTATION)
    if not uri:
        raise UnseenError("the RayJob does not say where its sweep folder is: --storage names it")
    return str(uri)


def open_folder(rayjob: Object, storage: str | None) -> Store:
    """Open it; `storage` is where it lies as seen from here, such as a mount of the claim.

    Raises:
        UnseenError: it cannot be read from here, or nothing is there yet.
    """
    uri = storage or folder_of(rayjob)
    try:
        store = open_existing_store(uri)
    except InputError as error:
        raise UnseenError(f"the sweep folder cannot be read from here: {' '.join(str(error).split())}") from error
    if store is None:
        if storage is None and local_folder(uri) is not None:
            claim = "on a claim of the cluster that is not mounted here: --storage names it as it is seen from here"
            raise UnseenError(f"the sweep folder {uri} lies {claim}")
        raise UnseenError(f"there is nothing in the sweep folder {uri} yet")
    return store


def record_of(store: Store) -> SweepRecord | None:
    """The sweep's record; None where its driver has not begun."""
    return from_bytes(SweepRecord, store.read(SWEEP_RECORD)) if store.exists(SWEEP_RECORD) else None
