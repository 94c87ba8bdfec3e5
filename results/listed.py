"""A sweep folder whose keys were listed once: thousands of questions, and no request to an object store for each."""

from results.store import Readable, Store, local_folder


class _Listed:
    """Answers `exists` from a listing, and reads what is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = frozenset(store.list(""))

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""
        return self._store.read(key)

    def exists(self, key: str) -> bool:
        """Whether `key` held bytes when the folder was listed."""
        return key in self._keys


def listed(store: Store) -> Readable:
    """The store itself where asking costs nothing, which is on a disk."""
    return store if local_folder(store.uri) is not None else _Listed(store)
