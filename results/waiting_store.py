"""A store whose writes wait for space, where a disk is full or the sweep's quota is reached, instead of failing."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from results.room import OutOfSpaceError, QuotaError, Room, Waiting, is_out_of_space
from results.store import Leftover, Lock, Store
from results.usage import checkpoint_bytes

Result = TypeVar("Result")


class WaitingStore:
    """Another store, with patience. What is not written is passed on as it is.

    `say` is told, in words, of each wait and of its end. `at_once` is the other store.
    """

    def __init__(self, store: Store, room: Room, say: Callable[[str], None]) -> None:
        self.at_once = store
        self.waiting = Waiting(room.wait_s, say)
        self._quota_bytes = room.quota_bytes

    @property
    def uri(self) -> str:
        """Where the folder is."""
        return self.at_once.uri

    def read(self, key: str) -> bytes:
        """The bytes under `key`. Raises KeyError where there are none."""
        return self.at_once.read(key)

    def write(self, key: str, data: bytes) -> None:
        """Replace what is under `key`, atomically, when there is space."""
        self._when_there_is_space(lambda: self.at_once.write(key, data))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write unless `key` exists, when there is space."""
        return self._when_there_is_space(lambda: self.at_once.put_if_absent(key, data))

    def exists(self, key: str) -> bool:
        """Whether `key` holds bytes."""
        return self.at_once.exists(key)

    def list(self, prefix: str) -> list[str]:
        """All keys that begin with the folder `prefix`, sorted."""
        return self.at_once.list(prefix)

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """The bytes of each key under the folder `prefix`."""
        return self.at_once.sizes(prefix)

    def versions(self, prefix: str) -> Mapping[str, str]:
        """A word for each key under the folder `prefix` that is another one once its bytes were written anew."""
        return self.at_once.versions(prefix)

    def delete(self, prefix: str) -> None:
        """Remove `prefix`, a key or a folder."""
        self.at_once.delete(prefix)

    def put_folder(self, prefix: str, fill: Callable[[Path], None]) -> None:
        """Publish what `fill` writes, when there is space and quota for it; `fill` may be called several times."""
        needed = 0

        def fill_within_quota(folder: Path) -> None:
            nonlocal needed
            self._check_quota(needed)  # what did not fit before need not be written to find that out again
            fill(folder)
            needed = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            self._check_quota(needed)

        self._when_there_is_space(lambda: self.at_once.put_folder(prefix, fill_within_quota))

    def get_folder(self, prefix: str) -> AbstractContextManager[Path]:
        """A local, read-only view of the folder `prefix`. Raises KeyError where there is none."""
        return self.at_once.get_folder(prefix)

    def lock(self, name: str, *, owner: str, stale_after_s: float) -> Lock:
        """Take the lock, or raise LockedError naming its live owner."""
        return self.at_once.lock(name, owner=owner, stale_after_s=stale_after_s)

    def leftovers(self) -> tuple[Leftover, ...]:
        """What killed writers left, and what live ones have under way."""
        return self.at_once.leftovers()

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one."""
        self.at_once.remove_leftover(leftover)

    def _check_quota(self, needed: int) -> None:
        if self._quota_bytes is not None and needed:
            used = checkpoint_bytes(self.at_once)
            if used + needed > self._quota_bytes:
                raise QuotaError(used=used, needed=needed, quota=self._quota_bytes)

    def _when_there_is_space(self, write: Callable[[], Result]) -> Result:
        while True:
            try:
                result = write()
            except OutOfSpaceError:
                raise
            except Exception as error:
                if not is_out_of_space(error):
                    raise
                self.waiting.wait(error)
            else:
                self.waiting.is_over()
                return result
