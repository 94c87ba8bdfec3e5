"""The store: every read and write of a sweep folder goes through this interface.

Keys are relative POSIX paths ('trials/ab12/record.json'). `open_store` picks the implementation by the folder's URI.
A crash at any moment leaves a key either absent or whole.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from search_spaces.problems import InputError, Problem

OBJECT_SCHEMES = ("s3", "gs")


class LockedError(ValueError):
    """Another live owner holds the lock."""


class LostLockError(RuntimeError):
    """The lock was taken over by another owner: nothing more may be written under it."""


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """What a killed writer left, unseen by readers. `written_at` is in seconds since the epoch."""

    name: str
    num_bytes: int
    written_at: float


class Lock(Protocol):
    """A held lock. `token` grows with each owner (a fencing token)."""

    @property
    def token(self) -> int:
        """The fencing token: it grows with each owner."""

    def verify(self) -> None:
        """Raise LostLockError unless this owner still holds the lock."""

    def release(self) -> None:
        """Give the lock back; idempotent."""


class Readable(Protocol):
    """What planning and tables ask of a sweep folder."""

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""

    def exists(self, key: str) -> bool:
        """Whether `key` holds bytes."""


class Listable(Readable, Protocol):
    """What sums over a sweep folder ask of it beside that."""

    def list(self, prefix: str) -> Sequence[str]:
        """All keys that begin with the folder `prefix`, sorted."""


class Store(Readable, Protocol):
    """One sweep folder."""

    @property
    def uri(self) -> str:
        """Where the folder is, as `open_store` takes it."""

    def write(self, key: str, data: bytes) -> None:
        """Replace what is under `key`, atomically."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write unless `key` exists; say whether this call wrote. Of two concurrent calls exactly one does."""

    def list(self, prefix: str) -> list[str]:
        """All keys that begin with the folder `prefix`, sorted."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """The bytes of each key under the folder `prefix`."""

    def versions(self, prefix: str) -> Mapping[str, str]:
        """For each key under the folder `prefix` a word that is another one once its bytes were written anew.

        It costs no reading: a file's size and time, an object's hash.
        """

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

    def leftovers(self) -> tuple[Leftover, ...]:
        """What killed writers left, and what live ones have under way."""

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one; nothing happens where it is gone."""


def open_store(uri: str) -> Store:
    """Open the sweep folder at `uri` (a local path, file://, s3:// or gs://), making it where it is absent.

    Raises:
        InputError: nothing can be written there, or its kind of storage is not supported.
    """
    if (folder := local_folder(uri)) is not None:
        from results.local_store import LocalStore

        return LocalStore.open(folder)
    from results.object_store import ObjectStore

    return ObjectStore.open(*_bucket(uri))


def open_existing_store(uri: str) -> Store | None:
    """The sweep folder at `uri` if there is one; nothing is made or written, so it may be read-only.

    Raises:
        InputError: it cannot be reached, or its kind of storage is not supported.
    """
    if (folder := local_folder(uri)) is not None:
        from results.local_store import LocalStore

        return LocalStore(folder.resolve()) if folder.is_dir() else None
    from results.object_store import ObjectStore

    return ObjectStore.open_existing(*_bucket(uri))


def local_folder(uri: str) -> Path | None:
    """The folder of a sweep that lies in a file system; None where it lies in an object store."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return Path(uri).expanduser()
    return Path(unquote(urlsplit(uri).path)) if scheme == "file" else None


def _bucket(uri: str) -> tuple[str, str]:
    """Scheme, and bucket with prefix. Raises InputError where it is no such URI."""
    scheme, _, place = uri.partition("://")
    if scheme not in OBJECT_SCHEMES:
        allowed = ", ".join(f"{name}://BUCKET/PREFIX" for name in OBJECT_SCHEMES)
        message = f"'{uri}': sweep folders are not kept on {scheme}:// (allowed: a local folder, {allowed})"
        raise InputError([Problem(where=uri, key="storage", message=message)])
    if not place.partition("/")[0]:
        raise InputError([Problem(where=uri, key="storage", message=f"'{uri}' names no bucket")])
    return scheme, place.rstrip("/")
