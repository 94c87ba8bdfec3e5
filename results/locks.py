"""A lock with a fencing token over any store: each owner takes the next number, a heartbeat keeps it.

The records are `lock/NAME/NNNNNNNN.json`; who writes the highest number with `put_if_absent` owns the lock. An owner
whose heartbeat stands still is passed over by the next number, and finds out at its next `verify`.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
from pydantic import TypeAdapter

from results.store import LockedError, LostLockError

if TYPE_CHECKING:
    from results.store import Store

LockState = Literal["free", "held", "stale"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_BEATS_PER_STALE_TIME = 4
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class _Record:
    """Who holds a token. `host` tells machines, their boots and pid namespaces apart; `started` see `_started`.

    `nonce` tells an owner its own record, where the answer to the write of it was lost on its way.
    """

    owner: str
    host: str
    pid: int
    started: float
    beat: int = 0
    released: bool = False
    nonce: str = ""


_RECORDS = TypeAdapter(_Record)


class HeldLock:
    """A lock that this process holds. Use `verify` before each write that it protects."""

    def __init__(self, store: "Store", name: str, token: int, record: _Record, beat_every_s: float) -> None:
        self._store = store
        self._name = name
        self._token = token
        self._record = record
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._beat_every_s = beat_every_s
        self._thread = threading.Thread(target=self._keep_alive, name=f"lock-{name}", daemon=True)
        self._thread.start()

    @property
    def token(self) -> int:
        """The fencing token: it grows with each owner."""
        return self._token

    def verify(self) -> None:
        """Raise LostLockError unless this owner still holds the lock."""
        verify_token(self._store, self._name, self._token)

    def release(self) -> None:
        """Give the lock back; nothing happens where it is given back or lost already.

        Where that cannot be written, the lock goes stale by itself.
        """
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            if not self._is_passed_over():
                self._write(released=True)

    def _is_passed_over(self) -> bool:
        """Whether another owner came: then this one's record is history, and may be gone."""
        return _tokens(self._store, self._name)[-1:] != [self._token]

    def _keep_alive(self) -> None:
        while not self._ended.wait(self._beat_every_s):
            try:
                if self._is_passed_over():
                    return  # a beat would only raise the dead
                self._write(released=False)
            except OSError:  # a full disk, or a mount or server away for a moment: the next beat tries again
                continue

    def _write(self, *, released: bool) -> None:
        with self._writing:
            self._record = replace(self._record, beat=self._record.beat + 1, released=released)
            self._store.write(_key(self._name, self._token), _RECORDS.dump_json(self._record))


def acquire(store: "Store", name: str, *, owner: str, stale_after_s: float) -> HeldLock:
    """Take the lock `name`, or raise LockedError naming the live owner.

    An owner on this machine is looked up among its processes, at once; one elsewhere counts as dead when its heartbeat
    stands still for `stale_after_s`, by this process's own clock.
    """
    tokens = _tokens(store, name)
    last = tokens[-1] if tokens else 0
    if last:
        _wait_until_free(store, name, last, stale_after_s)
    record = _Record(
        owner=owner,
        host=_this_host(),
        pid=os.getpid(),
        started=_started(os.getpid()),
        nonce=secrets.token_hex(8),
    )
    won = store.put_if_absent(_key(name, last + 1), _RECORDS.dump_json(record))
    highest = _tokens(store, name)[-1]
    won = won or _is_mine(store, name, last + 1, record)
    if won and highest > last + 1:  # others came and went since the look above, and cleaned this number away
        store.delete(_key(name, last + 1))
    if not won or highest > last + 1:
        raise LockedError(f"{_read(store, name, highest).owner} took it at this moment")
    for token in tokens[:-1]:
        store.delete(_key(name, token))
    return HeldLock(store, name, last + 1, record, stale_after_s / _BEATS_PER_STALE_TIME)


def verify_token(store: "Store", name: str, token: int) -> None:
    """Raise LostLockError unless the lock `name` is still held under `token`; any process may ask."""
    last = _tokens(store, name)[-1:]
    if last != [token] or _is_released(store, name, token):
        raise LostLockError(
            f"lock '{name}': token {token} holds it no more (last taken: {last[0] if last else 'none'})"
        )


def is_held(store: "Store", name: str) -> bool:
    """Whether an owner seems alive: it has not given the lock back, and where it runs here, its process is there."""
    return state_of(store, name) == "held"


def state_of(store: "Store", name: str) -> LockState:
    """Whether the lock is free, held by an owner that seems alive (see `is_held`), or stale: its owner is dead."""
    tokens = _tokens(store, name)
    if not tokens or _is_released(store, name, tokens[-1]):
        return "free"
    return "stale" if _is_alive(_read(store, name, tokens[-1])) is False else "held"


def _is_mine(store: "Store", name: str, token: int, record: _Record) -> bool:
    """Whether the record is this owner's after all: a server's answer can be lost where its write was done."""
    try:
        return _read(store, name, token) == record
    except KeyError:
        return False


def _wait_until_free(store: "Store", name: str, token: int, stale_after_s: float) -> None:
    if _is_released(store, name, token):
        return
    record = _read(store, name, token)
    alive = _is_alive(record)
    if alive is False:
        return
    if alive:
        raise LockedError(f"{record.owner} holds it")
    until = time.monotonic() + stale_after_s
    while time.monotonic() < until:
        time.sleep(_POLL_S)
        if _is_released(store, name, token):
            return
        seen = _read(store, name, token)
        if seen.beat != record.beat:
            raise LockedError(f"{record.owner} holds it")


def _is_alive(record: _Record) -> bool | None:
    """Whether the owner's process lives; None where it is another machine's."""
    if record.host != _this_host():
        return None
    try:
        process = psutil.Process(record.pid)
        return _started(record.pid) == record.started and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False


def _started(pid: int) -> float:
    """When the process started: clock ticks since boot where /proc tells, else seconds since the epoch.

    psutil's `create_time` adds the boot time, which moves when the clock is set: a live owner would look dead.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not _BOOT_ID.exists():
        return psutil.Process(pid).create_time()
    return float(stat.read_text().rpartition(")")[2].split()[19])  # field 22, counted behind the command's name


def _this_host() -> str:
    """This machine since its boot, as this process sees it: containers may share name and boot but not processes."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    namespace = _PID_NAMESPACE.readlink().as_posix() if _PID_NAMESPACE.is_symlink() else ""
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _tokens(store: "Store", name: str) -> list[int]:
    return [int(key.rpartition("/")[2].removesuffix(".json")) for key in store.list(f"lock/{name}")]


def _read(store: "Store", name: str, token: int) -> _Record:
    return _RECORDS.validate_json(store.read(_key(name, token)))


def _is_released(store: "Store", name: str, token: int) -> bool:
    """Whether the token's owner gave it back, or was passed over so long ago that its record is gone."""
    try:
        return _read(store, name, token).released
    except KeyError:
        return True


def _key(name: str, token: int) -> str:
    return f"lock/{name}/{token:08d}.json"
