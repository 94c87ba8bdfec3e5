"""A sweep folder on a local (or network) file system."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from results.locks import HeldLock, acquire
from results.room import is_out_of_space
from results.store import Leftover
from search_spaces.problems import InputError, Problem

_PARTIAL = ".partial-"  # unfinished writes: never listed, removed when old
_PARTIAL_AGE_S = 24 * 3600.0


class LocalStore:
    """Implements `results.store.Store` with renames and hard links, which are atomic on local disks and NFS."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def open(cls, root: Path) -> "LocalStore":
        """Open the folder, making it where it is absent.

        Raises:
            InputError: it is no folder, or nothing can be written there.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=root, prefix=_PARTIAL):
                pass
        except OSError as error:
            if is_out_of_space(error) and root.is_dir():  # who writes to it finds out, and may wait
                return cls(root.resolve())
            message = f"this sweep folder cannot be written ({error.strerror or error})"
            raise InputError([Problem(where=str(root), key="storage", message=message)]) from error
        store = cls(root.resolve())
        store._remove_old_leftovers()
        return store

    @property
    def uri(self) -> str:
        """The folder's absolute path."""
        return str(self._root)

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise KeyError(key) from error

    def write(self, key: str, data: bytes) -> None:
        """Replace what is under `key`, atomically."""
        partial = self._written_partial(key, data)
        try:
            partial.replace(self._path(key))
        except OSError:
            partial.unlink()
            raise
        _sync_folder(self._path(key).parent)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write unless `key` exists; of two concurrent calls exactly one says True."""
        partial = self._written_partial(key, data)
        try:
            os.link(partial, self._path(key))  # unlike a rename, a link fails where the name is taken
        except FileExistsError:
            return False
        finally:
            partial.unlink()
        _sync_folder(self._path(key).parent)
        return True

    def exists(self, key: str) -> bool:
        """Whether `key` holds bytes."""
        return self._path(key).is_file()

    def list(self, prefix: str) -> list[str]:
        """All keys that begin with the folder `prefix`, sorted; '' lists everything."""
        start = self._path(prefix) if prefix else self._root
        found = []
        for folder, folders, files in os.walk(start):
            folders[:] = [name for name in folders if not name.startswith(_PARTIAL)]
            found += [Path(folder, name) for name in files if not name.startswith(_PARTIAL)]
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def sizes(self, prefix: str) -> dict[str, int]:
        """The bytes of each key under the folder `prefix`."""
        return {key: found.st_size for key, found in self._stats(prefix)}

    def versions(self, prefix: str) -> dict[str, str]:
        """Size and time of each key under the folder `prefix`, of which one is another once it was written anew."""
        return {key: f"{found.st_size}-{found.st_mtime_ns}" for key, found in self._stats(prefix)}

    def _stats(self, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
        for key in self.list(prefix):
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                yield key, (self._root / key).stat()

    def delete(self, prefix: str) -> None:
        """Remove a key or a folder; a folder vanishes at once, never half."""
        path = self._path(prefix)
        if path.is_dir():
            doomed = Path(tempfile.mkdtemp(dir=path.parent, prefix=_PARTIAL)) / "doomed"
            try:
                path.rename(doomed)
            except FileNotFoundError:  # another process was quicker
                pass
            finally:
                shutil.rmtree(doomed.parent, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def put_folder(self, prefix: str, fill: Callable[[Path], None]) -> None:
        """Publish what `fill` writes under `prefix`, whole or not at all; an existing folder is kept."""
        target = self._path(prefix)
        if target.is_dir():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=_PARTIAL))
        try:
            fill(partial)
            partial.chmod(0o755)
            _sync_tree(partial)
            partial.rename(target)
            _sync_folder(target.parent)
        except OSError:
            if not target.is_dir():  # else another writer was first, and its folder stands
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def get_folder(self, prefix: str) -> Iterator[Path]:
        """The folder itself. Raises KeyError where there is none."""
        path = self._path(prefix)
        if not path.is_dir():
            raise KeyError(prefix)
        yield path

    def lock(self, name: str, *, owner: str, stale_after_s: float) -> HeldLock:
        """Take the lock, or raise LockedError naming its live owner."""
        return acquire(self, name, owner=owner, stale_after_s=stale_after_s)

    def leftovers(self) -> tuple[Leftover, ...]:
        """What killed writers left, and what live ones have under way.

        os.walk and not rglob, which raises where another process renames a folder under it.
        """
        found = []
        for folder, folders, files in os.walk(self._root):
            for name in [n for n in (*folders, *files) if n.startswith(_PARTIAL)]:
                with contextlib.suppress(FileNotFoundError):  # its owner was quicker
                    found.append(_leftover(Path(folder, name), self._root))
            folders[:] = [n for n in folders if not n.startswith(_PARTIAL)]
        return tuple(found)

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one; nothing happens where it is gone."""
        path = self._root / leftover.name
        if not path.name.startswith(_PARTIAL):
            raise ValueError(f"'{leftover.name}' is no leftover")
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        # On text: a sweep's tables ask for tens of thousands of keys.
        parts = key.split("/")
        if not key.strip("./") or not parts[0] or ".." in parts or any(part.startswith(_PARTIAL) for part in parts):
            raise ValueError(f"'{key}' is not a key (a relative path without '..' is)")
        return Path(f"{self._root}/{key}")

    def _written_partial(self, key: str, data: bytes) -> Path:
        folder = self._path(key).parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=_PARTIAL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
        except OSError:  # a full disk must not be filled further by what did not fit
            Path(name).unlink()
            raise
        return Path(name)

    def _remove_old_leftovers(self) -> None:
        """Clean up after killed writers; young ones may belong to a live one."""
        for leftover in self.leftovers():
            if time.time() - leftover.written_at > _PARTIAL_AGE_S:
                self.remove_leftover(leftover)


def _leftover(path: Path, root: Path) -> Leftover:
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    sizes = [file.stat().st_size for file in files if file.is_file()]
    name = path.relative_to(root).as_posix()
    return Leftover(name=name, num_bytes=sum(sizes), written_at=path.stat().st_mtime)


def _sync_tree(folder: Path) -> None:
    """Make files, and the folders that name them, survive a power cut."""
    for path in [folder, *folder.rglob("*")]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
