"""How what another sweep folder has is taken over: copied, or only noted, so that a plan knows what a run will take."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from results import layout
from results.layout import Status
from results.listed import listed
from results.rows import read_rows
from results.store import Lock, Readable, Store
from search_spaces.problems import UnreadableError
from trainers.encoders.checkpoint_files import RECORD


class ChangedCheckpointError(ValueError):
    """A checkpoint is not what its trial's row says."""


class Way(Protocol):
    """A way of taking over from `source`. `there` is what the sweep has, with all that was taken so far."""

    @property
    def source(self) -> Store:
        """The other folder, which is only read."""

    @property
    def there(self) -> Readable:
        """The sweep's own folder."""

    def file(self, key: str, table: str | None = None) -> None:
        """Take what lies under a key. Raises SchemaError where it holds rows that are none of `table`'s."""

    def checkpoint(self, prefix: str, expected_hash: str) -> None:
        """Take a checkpoint. Raises ChangedCheckpointError where its hash is another one."""

    def status(self, prefix: str) -> None:
        """Take a status, if there is one that can be read; it then says from where it was taken."""

    def no_evaluations(self, trial_id: str) -> None:
        """Note that a trial is evaluated on nothing."""


class Copying:
    """Copies into the sweep's folder, while its lock is held."""

    def __init__(self, store: Store, source: Store, lock: Lock) -> None:
        self._store, self._source, self._lock = store, source, lock

    @property
    def source(self) -> Store:
        """The other folder."""
        return self._source

    @property
    def there(self) -> Readable:
        """The sweep's own folder."""
        return self._store

    def file(self, key: str, table: str | None = None) -> None:
        """Copy it, if it keeps this version's contract: it would be no use here otherwise."""
        if table is not None:
            read_rows(self._source, key, table)
        self._write(key, self._source.read(key))

    def checkpoint(self, prefix: str, expected_hash: str) -> None:
        """Copy it, and hold the copy against the hash."""
        from trainers.encoders.checkpoints import checkpoint_hash  # here: it takes torch, which most runs do without

        def fill(folder: Path) -> None:
            with self._source.get_folder(prefix) as theirs:
                shutil.copytree(theirs, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
            found = checkpoint_hash(folder)
            if found != expected_hash:
                raise ChangedCheckpointError(f"its checkpoint's hash is {found}, and its row says {expected_hash}")

        self._lock.verify()
        self._store.put_folder(prefix, fill)

    def status(self, prefix: str) -> None:
        """Copy it, with the other folder as its reason."""
        key = layout.status_key(prefix)
        if self._source.exists(key):
            try:
                status = layout.from_bytes(Status, self._source.read(key))
            except UnreadableError:  # rows say what is finished
                return
            self._write(key, layout.to_bytes(replace(status, reason=f"taken over from {self._source.uri}")))

    def no_evaluations(self, trial_id: str) -> None:
        """Write that there are none."""
        self._write(layout.evaluations_key(trial_id), layout.evaluations_to_bytes(()))

    def _write(self, key: str, data: bytes) -> None:
        self._lock.verify()
        self._store.write(key, data)


class Foreseen:
    """A sweep's folder as it will be when all was taken over that can be; nothing is written.

    `store` is None where there is no folder yet.
    """

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._there = listed(store) if store else None
        self._taken: dict[str, Store] = {}

    def read(self, key: str) -> bytes:
        """The bytes under `key`, wherever they lie now. Raises KeyError where there are none."""
        if key in self._taken:
            return self._taken[key].read(key)
        if self._there is None:
            raise KeyError(key)
        return self._there.read(key)

    def exists(self, key: str) -> bool:
        """Whether `key` will hold bytes."""
        return key in self._taken or (self._there is not None and self._there.exists(key))

    def list(self, prefix: str) -> Sequence[str]:
        """The keys that the sweep's own folder has under `prefix`: of what is listed nothing is taken over."""
        return self._store.list(prefix) if self._store else []

    def note(self, key: str, source: Store) -> None:
        """`key` will be taken over."""
        self._taken[key] = source


class Looking:
    """Copies nothing, but notes what would be copied: of most files only whether they are there."""

    def __init__(self, foreseen: Foreseen, source: Store) -> None:
        self._foreseen, self._source = foreseen, source

    @property
    def source(self) -> Store:
        """The other folder."""
        return self._source

    @property
    def there(self) -> Readable:
        """The sweep's folder, as it will be."""
        return self._foreseen

    def file(self, key: str, table: str | None = None) -> None:
        """Note it. Raises KeyError where there is none."""
        if not self._source.exists(key):
            raise KeyError(key)
        self._foreseen.note(key, self._source)

    def checkpoint(self, prefix: str, expected_hash: str) -> None:
        """Note its record, by which plans know that a checkpoint is there. Raises KeyError where it is not."""
        self.file(f"{prefix}/{RECORD}")

    def status(self, prefix: str) -> None:
        """Nothing: rows say what is finished."""

    def no_evaluations(self, trial_id: str) -> None:
        """Nothing."""
