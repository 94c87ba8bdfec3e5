"""A sweep folder in an object store (s3://, gs://), through fsspec: conditional writes in place of links and renames.

An object appears whole or not at all, but several do not appear at once. A published folder is therefore one small
object, `FOLDER/.folder`, which names the version whose files lie under `FOLDER/.whole-VERSION/`. A version that no such
object names is unfinished or left over, and is not seen.
"""

import math
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter

from results.locks import HeldLock, acquire
from results.object_errors import as_os_errors, is_busy, is_taken
from results.store import Leftover
from search_spaces.problems import InputError, Problem

_POINTER, _VERSION = ".folder", ".whole-"
_MARKER = ".densesweep"  # written once; that it cannot be written twice shows that conditional writes are kept
_PART_BYTES = 8 * 2**20  # large files go up and come down in parts of so much, a few at once
_MAX_PARTS = 9_000  # of 10,000 that S3 allows
_AT_ONCE = 8
_BUSY_TRIES, _BUSY_WAIT_S = 5, 0.2
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "s3": {"use_listings_cache": False, "default_block_size": _PART_BYTES, "max_concurrency": 4},
    "gs": {"use_listings_cache": False},
}
_PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs")}  # what a scheme needs, and the extra that brings it


@dataclass(frozen=True, kw_only=True)
class _Published:
    """What a folder's pointer holds: its version, and the size of each file."""

    version: str
    files: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class _Object:
    path: str
    num_bytes: int
    version: str = ""


_POINTERS = TypeAdapter(_Published)


class ObjectStore:
    """Implements `results.store.Store` over an fsspec file system that keeps conditional writes (`mode="create"`)."""

    def __init__(self, scheme: str, root: str) -> None:
        self._uri = f"{scheme}://{root}"
        self._root = root
        self._fs = _file_system(scheme, self._uri)

    @classmethod
    def open(cls, scheme: str, root: str) -> "ObjectStore":
        """Open the folder, and make sure that it can be written and that of two conditional writes one is refused.

        Raises:
            InputError: it cannot be reached or written, or the server ignores conditions.
        """
        store = cls(scheme, root)
        try:
            first = store.put_if_absent(_MARKER, b"a sweep folder of densesweep\n", reserved=True)
            kept = not first or not store.put_if_absent(_MARKER, b"", reserved=True)
        except (OSError, KeyError) as error:
            raise _refused(store.uri, f"this sweep folder cannot be written ({_words(error)})") from error
        if not kept:
            message = "this server ignores If-None-Match, without which two runs could both hold a sweep's lock"
            raise _refused(store.uri, message)
        return store

    @classmethod
    def open_existing(cls, scheme: str, root: str) -> "ObjectStore | None":
        """The folder, if there is anything in it; nothing is written. Raises InputError where it cannot be read."""
        store = cls(scheme, root)
        try:
            with as_os_errors():
                return store if store._fs.exists(root) else None
        except OSError as error:
            raise _refused(store.uri, f"this sweep folder cannot be read ({_words(error)})") from error

    @property
    def uri(self) -> str:
        """The folder's URI."""
        return self._uri

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""
        path = self._path(key)
        with as_os_errors():
            try:
                return bytes(self._fs.cat_file(path))
            except (FileNotFoundError, IsADirectoryError) as error:
                if found := self._in_folder(key):
                    return bytes(self._fs.cat_file(found.path))
                raise KeyError(key) from error

    def write(self, key: str, data: bytes) -> None:
        """Replace what is under `key`, atomically."""
        with as_os_errors():
            self._fs.pipe_file(self._path(key), data)

    def put_if_absent(self, key: str, data: bytes, *, reserved: bool = False) -> bool:
        """Write unless `key` exists; of two concurrent calls at most one says True.

        Where the answer to a write that succeeded was lost on its way, its own repetition is refused: whoever must know
        compares what is there with what was written.
        """
        path = f"{self._root}/{key}" if reserved else self._path(key)
        for _ in range(_BUSY_TRIES):
            try:
                with as_os_errors():
                    self._fs.pipe_file(path, data, mode="create")
                return True
            except OSError as error:
                if is_taken(error):
                    return False
                if not is_busy(error):
                    raise
                time.sleep(_BUSY_WAIT_S)  # another conditional write of this key is under way
        raise OSError(f"{self._uri}/{key}: other writers kept it busy {_BUSY_TRIES} times")

    def exists(self, key: str) -> bool:
        """Whether `key` holds bytes."""
        return self._is_object(self._path(key)) or self._in_folder(key) is not None

    def list(self, prefix: str) -> list[str]:
        """All keys that begin with the folder `prefix`, sorted; '' lists everything."""
        return sorted(self._visible(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The bytes of each key under the folder `prefix`."""
        return {key: found.num_bytes for key, found in self._visible(prefix).items()}

    def versions(self, prefix: str) -> dict[str, str]:
        """What the server tells each content of each key under the folder `prefix` by."""
        return {key: found.version for key, found in self._visible(prefix).items()}

    def delete(self, prefix: str) -> None:
        """Remove a key or a folder; a published folder vanishes at once, never half."""
        path = self._path(prefix)
        names = list(self._raw(prefix))
        pointers = [name for name in names if name.rpartition("/")[2] == _POINTER]
        with as_os_errors():
            self._remove([f"{self._root}/{name}" for name in pointers])
            self._remove([path, *(f"{self._root}/{name}" for name in names if name not in set(pointers))])

    def put_folder(self, prefix: str, fill: Callable[[Path], None]) -> None:
        """Publish what `fill` writes under `prefix`, whole or not at all; an existing folder is kept.

        The files pass through the machine's folder for temporary files, and are uploaded in parts.
        """
        folder = self._path(prefix)
        if self._pointer(prefix) or self._visible(prefix):
            return
        version = secrets.token_hex(8)
        with tempfile.TemporaryDirectory(prefix="densesweep-upload-") as scratch:
            fill(Path(scratch))
            files = {p.relative_to(scratch).as_posix(): p for p in sorted(Path(scratch).rglob("*")) if p.is_file()}
            published = _Published(version=version, files={name: p.stat().st_size for name, p in files.items()})
            uploaded = [f"{folder}/{_VERSION}{version}/{name}" for name in files]
            try:
                for target, file in zip(uploaded, files.values(), strict=True):
                    self._upload(file, target)
                won = self._point(prefix, published)
            except BaseException:
                with suppress(OSError), as_os_errors():
                    self._remove(uploaded)
                raise
        if not won:  # another writer was first, and its folder stands
            with as_os_errors():
                self._remove(uploaded)

    @contextmanager
    def get_folder(self, prefix: str) -> Iterator[Path]:
        """A copy of the folder, for as long as the block runs. Raises KeyError where there is none."""
        found = self._visible(prefix)
        if not found and not self._pointer(prefix):
            raise KeyError(prefix)
        with tempfile.TemporaryDirectory(prefix="densesweep-download-") as scratch:
            for key, stored in found.items():
                file = Path(scratch, PurePosixPath(key).relative_to(prefix))
                file.parent.mkdir(parents=True, exist_ok=True)
                self._download(stored, file)
            yield Path(scratch)

    def lock(self, name: str, *, owner: str, stale_after_s: float) -> HeldLock:
        """Take the lock, or raise LockedError naming its live owner."""
        return acquire(self, name, owner=owner, stale_after_s=stale_after_s)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Files of folders whose publishing was cut off, one for each version."""
        found: dict[str, Leftover] = {}
        named = {self._version_of(name) for name in self._raw("") if name.rpartition("/")[2] == _POINTER}
        for name, info in self._raw("").items():
            version = _version_folder(name)
            if version is None or version in named:
                continue
            before = found.get(version, Leftover(name=version, num_bytes=0, written_at=0.0))
            written = max(before.written_at, _modified(info))
            found[version] = Leftover(name=version, num_bytes=before.num_bytes + info["size"], written_at=written)
        return tuple(found.values())

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one; nothing happens where it is gone."""
        if _version_folder(f"{leftover.name}/") != leftover.name:
            raise ValueError(f"'{leftover.name}' is no leftover")
        with as_os_errors():
            self._remove([f"{self._root}/{name}" for name in self._raw(leftover.name)])

    def _path(self, key: str) -> str:
        pure = PurePosixPath(key)
        reserved = any(part.startswith((".partial-", _VERSION)) or part in (_POINTER, _MARKER) for part in pure.parts)
        if not pure.parts or pure.is_absolute() or ".." in pure.parts or reserved:
            raise ValueError(f"'{key}' is not a key (a relative path without '..' is)")
        return f"{self._root}/{pure}"

    def _raw(self, prefix: str) -> dict[str, Mapping[str, Any]]:
        """Every object under the folder `prefix`, by its name below the root."""
        start = f"{self._root}/{prefix}" if prefix else self._root
        with as_os_errors():
            try:
                found = self._fs.find(start, detail=True)
            except FileNotFoundError:
                return {}
        below = len(self._root) + 1
        return {path[below:]: info for path, info in found.items() if path.startswith(f"{start}/")}

    def _visible(self, prefix: str) -> dict[str, _Object]:
        """What keys under the folder `prefix` are there, and in which object each lies."""
        raw = self._raw(prefix)
        if not raw and prefix:
            return self._visible_inside(prefix)
        versions: dict[str, set[str]] = {}
        for name in raw:
            if version := _version_folder(name):
                versions.setdefault(version.rpartition("/")[0], set()).add(version)
        current = {
            self._version_of(f"{folder}/{_POINTER}") if len(found) > 1 else next(iter(found))
            for folder, found in versions.items()
            if f"{folder}/{_POINTER}" in raw
        }
        visible = {}
        for name, info in raw.items():
            version = _version_folder(name)
            if version in current:
                key = f"{version.rpartition('/')[0]}/{name[len(version) + 1 :]}".removeprefix("/")
            elif version is None and name.rpartition("/")[2] not in (_POINTER, _MARKER):
                key = name
            else:
                continue
            visible[key] = _Object(path=f"{self._root}/{name}", num_bytes=info["size"], version=_version(info))
        return visible

    def _visible_inside(self, prefix: str) -> dict[str, _Object]:
        """What `_visible` gives of a folder inside a published one, whose objects have other names."""
        for folder in list(PurePosixPath(prefix).parents)[:-1]:
            if self._pointer(str(folder)):
                found = self._visible(str(folder))
                return {key: stored for key, stored in found.items() if key.startswith(f"{prefix}/")}
        return {}

    def _is_object(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        with as_os_errors():
            try:
                return path in self._fs.find(parent, prefix=name)
            except FileNotFoundError:
                return False

    def _in_folder(self, key: str) -> _Object | None:
        """The object of a key inside a published folder."""
        for folder in list(PurePosixPath(key).parents)[:-1]:
            if published := self._pointer(str(folder)):
                name = str(PurePosixPath(key).relative_to(folder))
                path = f"{self._root}/{folder}/{_VERSION}{published.version}/{name}"
                return _Object(path=path, num_bytes=published.files[name]) if name in published.files else None
        return None

    def _pointer(self, prefix: str) -> _Published | None:
        with as_os_errors():
            try:
                return _POINTERS.validate_json(self._fs.cat_file(f"{self._path(prefix)}/{_POINTER}"))
            except FileNotFoundError:
                return None

    def _version_of(self, pointer_name: str) -> str:
        folder = pointer_name.rpartition("/")[0]
        published = self._pointer(folder)
        return f"{folder}/{_VERSION}{published.version}" if published else ""

    def _point(self, prefix: str, published: _Published) -> bool:
        """Publish a version; whether it is this one that stands."""
        name = f"{self._path(prefix)}/{_POINTER}"[len(self._root) + 1 :]
        return self.put_if_absent(name, _POINTERS.dump_json(published), reserved=True) or (
            self._pointer(prefix) == published  # the first answer was lost
        )

    def _upload(self, file: Path, target: str) -> None:
        part = _PART_BYTES * max(1, math.ceil(file.stat().st_size / (_PART_BYTES * _MAX_PARTS)))
        with as_os_errors():
            self._fs.put_file(str(file), target, chunksize=part)

    def _download(self, stored: _Object, file: Path) -> None:
        with as_os_errors():
            self._fs.get_file(stored.path, str(file))
        if file.stat().st_size != stored.num_bytes:
            raise OSError(f"{stored.path}: {file.stat().st_size} bytes came of {stored.num_bytes}")

    def _remove(self, paths: Iterable[str]) -> None:
        """Remove objects, several at once, each with its own answer: bulk deletion in s3fs hides what was refused."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self._remove_one, paths):
                pass

    def _remove_one(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(path)


def _file_system(scheme: str, uri: str) -> Any:
    """The file system of a scheme, with the environment's credentials."""
    import fsspec

    package, extra = _PACKAGES[scheme]
    try:
        return fsspec.filesystem(scheme, **_OPTIONS[scheme])
    except ImportError as error:
        message = f"sweep folders on {scheme}:// need the package {package}: pip install 'densesweep[{extra}]'"
        raise _refused(uri, message) from error


def _version_folder(name: str) -> str | None:
    """The version folder that an object lies in, 'a/b/.whole-12' for 'a/b/.whole-12/c'."""
    start = name.find(f"/{_VERSION}")
    end = name.find("/", start + 1)
    return name[:end] if start >= 0 and end >= 0 else None


def _modified(info: Mapping[str, Any]) -> float:
    at = info.get("LastModified") or info.get("mtime")
    return at.timestamp() if at else 0.0


def _version(info: Mapping[str, Any]) -> str:
    """By the hash that S3 and Google tell of an object; by its time, were there none."""
    return str(info.get("ETag") or info.get("etag") or info.get("md5Hash") or _modified(info)).strip('"')


def _words(error: Exception) -> str:
    return " ".join(str(error.__cause__ or error).split()) or type(error).__name__


def _refused(uri: str, message: str) -> InputError:
    return InputError([Problem(where=uri, key="storage", message=message)])
