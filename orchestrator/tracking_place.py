"""Where a sweep is tracked in MLflow: the server or database that its file names, else SQLite that its folder fills.

Beside a local sweep folder, and on this machine, in the cache folder, where the sweep folder is none.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from results.store import Store, local_folder
from search_spaces.problems import InputError, Problem
from trainers.cache import cache_folder

_SERVER_SCHEMES = ("http", "https")
_DATABASE_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql")
_SQLITE = "sqlite:///"
_NETWORK_PREFIXES = ("nfs", "smb", "fuse.")
_NETWORK_TYPES = ("cifs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs")


@dataclass(frozen=True, kw_only=True)
class TrackingPlace:
    """Where runs are kept: an absolute tracking URI, and where artifacts go (None: the server decides)."""

    uri: str
    artifacts: str | None

    @property
    def is_server(self) -> bool:
        """Whether a server answers at `uri`, so that no UI needs to be started."""
        return self.uri.startswith(("http://", "https://"))

    @property
    def own_database(self) -> Path | None:
        """The SQLite file, where it lies beside its artifacts: the sweep folder alone fills it, and can do so again."""
        database = Path(self.uri.removeprefix(_SQLITE))
        is_own = self.uri.startswith(_SQLITE) and self.artifacts == _artifacts(database.parent)
        return database if is_own else None


def place_of(store: Store, configured_uri: str | None, *, where: str = "tracking") -> TrackingPlace:
    """Where the sweep in `store` is tracked. Raises InputError as `tracking_place` does."""
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    return tracking_place(store.uri, configured_uri, sweep_id=sweep_id(store), mounts=mounts, where=where)


def tracking_place(
    store_uri: str,
    configured_uri: str | None,
    *,
    sweep_id: str,
    mounts: Mapping[Path, str],
    where: str = "tracking",
) -> TrackingPlace:
    """The configured place, else SQLite in the sweep folder, or in the cache folder where that is not on a local disk.

    `mounts` has the file system type of each mount point. SQLite's write-ahead log needs memory that all readers share
    (https://sqlite.org/wal.html), which neither network mounts nor object stores have.

    Raises:
        InputError: `configured_uri` is neither a server nor a database (`./mlruns` is refused by MLflow itself).
    """
    if problems := tracking_problems(configured_uri, where):
        raise InputError(problems)
    folder = local_folder(store_uri)
    if folder is None or (configured_uri is None and _is_network(folder.resolve(), mounts)):
        own = cache_folder().absolute() / "tracking" / sweep_id
    else:
        own = folder.resolve() / "tracking"
    if configured_uri is None:
        return TrackingPlace(uri=f"{_SQLITE}{own}/mlflow.db", artifacts=_artifacts(own))
    if configured_uri.startswith(tuple(f"{scheme}://" for scheme in _SERVER_SCHEMES)):
        return TrackingPlace(uri=configured_uri, artifacts=None)
    return TrackingPlace(uri=absolute_uri(configured_uri), artifacts=_artifacts(own))


def tracking_problems(uri: str | None, where: str, *, key: str = "tracking.uri") -> list[Problem]:
    """What is wrong with the `tracking.uri` of the sweep file `where`, or with what stands in its place."""
    scheme, separator, _ = (uri or "").partition("://")
    if uri is None or (separator and scheme.partition("+")[0] in (*_SERVER_SCHEMES, *_DATABASE_SCHEMES)):
        return []
    allowed = ", ".join(f"{name}:" for name in (*_SERVER_SCHEMES, *_DATABASE_SCHEMES))
    message = f"'{uri}' is not a tracking server or database (allowed: {allowed})"
    return [Problem(where=where, key=key, message=message)]


def absolute_uri(uri: str) -> str:
    """The URI, with the path of a SQLite file made absolute: it means the same from every working directory."""
    return _SQLITE + str(Path(uri.removeprefix(_SQLITE)).absolute()) if uri.startswith(_SQLITE) else uri


def sweep_id(store: Store) -> str:
    """What names a sweep folder in MLflow for good: made once, kept in the folder."""
    key = "tracking/sweep_id"
    store.put_if_absent(key, hashlib.sha256(os.urandom(32)).hexdigest()[:16].encode())
    return store.read(key).decode()


def _is_network(folder: Path, mounts: Mapping[Path, str]) -> bool:
    kind = next((mounts[path] for path in (folder, *folder.parents) if path in mounts), "")
    return kind.startswith(_NETWORK_PREFIXES) or kind in _NETWORK_TYPES


def _artifacts(folder: Path) -> str:
    return (folder / "artifacts").as_uri()
