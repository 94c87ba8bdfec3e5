"""What runs of a sweep printed, of its folder: `kept_output` put it there, and it outlives pods, nodes and clusters."""

from orchestrator.kept_output import OUTPUT_PREFIX
from results.store import Store, open_existing_store
from search_spaces.problems import InputError, Problem


def kept_outputs(store: Store) -> list[str]:
    """The keys of what runs of a sweep printed, oldest first."""
    return [key for key in store.list("logs") if key.startswith(OUTPUT_PREFIX)]


def last_kept(store: Store) -> list[str]:
    """The lines of the last run that the sweep folder has kept the output of. Raises KeyError where there is none."""
    keys = kept_outputs(store)
    if not keys:
        raise KeyError(store.uri)
    return store.read(keys[-1]).decode(errors="replace").splitlines()


def last_kept_in(storage: str) -> list[str]:
    """As `last_kept`, of the sweep folder there. Raises InputError where it has none."""
    store = open_existing_store(storage)
    try:
        if store is None:
            raise KeyError(storage)
        return last_kept(store)
    except KeyError:
        message = "has kept no output of a run in a cluster"
        raise InputError([Problem(where=storage, key="", message=message)]) from None
