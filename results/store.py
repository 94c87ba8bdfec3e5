"""The store: every read and write of a sweep folder goes through this interface.

Keys are relative POSIX paths ('trials/ab12/record.json'). `open_store` picks the implementation by the folder's URI.
A crash at any moment leaves a key either absent or whole.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from search_spaces.problems import InputError, Problem


class LockedError(ValueError):
    """Another live owner holds the lock."""


class LostLockError(RuntimeError):
    """The lock was taken over by another owner: nothing more may be written under it."""


class Lock(Protocol):
    """A held lock. `token` grows with each owner (a fencing token)."""

    @property
    def token(self) -> int:
        """The fencing token: it grows with each owner."""

    def verify(self) -> None:
        """Raise LostLockError unless this owner still holds the lock."""

    def release(self) -> None:
        """Give the lock back; idempotent."""


class Store(Protocol):
    """One sweep folder."""

    @property
    def uri(self) -> str:
        """Where the folder is, as `open_store` takes it."""

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""

    def write(self, key: str, data: bytes) -> None:
        """Replace what is under `key`, atomically."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write unless `key` exists; say whether this call wrote. Of two concurrent calls exactly one does."""

    def exists(self, key: str) -> bool:
        """Whether `key` holds bytes."""

    def list(self, prefix: str) -> list[str]:
        """All keys that begin with the folder `prefix`, sorted."""

    def delete(self, prefix: str) -> None:
        """Remove `prefix`, a key or a folder; nothing happens where there is none."""

    def put_folder(self, prefix: str, fill: Callable[[Path], None]) -> None:
        """Let `fill` write files into an empty local folder, then publish them under `prefix`, whole or not at all.

        A folder that is there already is kept, and `fill` is not called: folders are written once.
        """

    def get_folder(self, prefix: str) -> AbstractContextManager[Path]:
        """A local, read-only view of the folder `prefix`. Raises KeyError where there is none."""

    def lock(self, name: str, *, owner: str, stale_after_s: float) -> Lock:
        """Take the lock and keep it alive by a heartbeat; a lock without heartbeat for `stale_after_s` is taken over.

        Raises:
            LockedError: a live owner holds it; the message names that owner.
        """


def open_store(uri: str) -> Store:
    """Open the sweep folder at `uri` (a local path, or file://), making it where it is absent.

    Raises:
        InputError: nothing can be written there, or its kind of storage is not supported.
    """
    from results.local_store import LocalStore

    return LocalStore.open(_local_path(uri))


def open_existing_store(uri: str) -> Store | None:
    """The sweep folder at `uri` if there is one; nothing is made or written, so it may be read-only."""
    from results.local_store import LocalStore

    path = _local_path(uri)
    return LocalStore(path.resolve()) if path.is_dir() else None


def _local_path(uri: str) -> Path:
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return Path(uri).expanduser()
    if scheme != "file":
        message = (
            f"'{uri}': sweep folders on {scheme}:// are not supported yet; name a local folder (or a network mount)"
        )
        raise InputError([Problem(where=uri, key="storage", message=message)])
    return Path(unquote(urlsplit(uri).path))
