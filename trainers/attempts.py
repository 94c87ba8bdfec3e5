"""The status record of one attempt at a trial or probe: started, then finished or failed with its reason."""

import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from results import layout
from results.clock import utc_now
from results.layout import Status
from results.store import Store
from trainers.failures import reason_of


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Where an attempt's status is kept. `verify` raises LostLockError where this process may write no more."""

    store: Store
    prefix: str
    verify: Callable[[], None]

    def start(self) -> Status:
        """Record that this process works on it."""
        before = self._recorded()
        attempt = before.attempt + 1 if before else 1
        return self._write(Status(state="running", started_at=utc_now(), attempt=attempt, owner=this_process()))

    def go_on(self) -> Status:
        """Record that this process works on it, after another one that did its part of the same attempt."""
        before = self._recorded()
        if before is None:
            return self.start()
        return self._write(replace(before, owner=this_process()))

    def finish(self) -> Status:
        """Record that its rows are there; a record that says so already stays."""
        before = self._recorded() or Status(state="running", started_at=utc_now(), owner=this_process())
        if before.state == "finished":
            return before
        return self._write(replace(before, state="finished", reason=None, error=None, finished_at=utc_now()))

    def fail(self, error: Exception, started: Status) -> Status:
        """Record why it failed, with the traceback of `error`, which is being handled."""
        return self._write(_failed(error, started))

    def failed_here(self, error: Exception) -> Status:
        """What `fail` would record, for a process that takes part in an attempt which another one records."""
        started = self._recorded() or Status(state="running", started_at=utc_now(), owner=this_process())
        return _failed(error, started)

    def _recorded(self) -> Status | None:
        key = layout.status_key(self.prefix)
        return layout.from_bytes(Status, self.store.read(key)) if self.store.exists(key) else None

    def _write(self, status: Status) -> Status:
        self.verify()
        self.store.write(layout.status_key(self.prefix), layout.to_bytes(status))
        return status


def _failed(error: Exception, started: Status) -> Status:
    failed = replace(started, state="failed", reason=reason_of(error), error=traceback.format_exc())
    return replace(failed, finished_at=utc_now())


def this_process() -> str:
    """host:pid, as statuses and locks name an owner."""
    return f"{socket.gethostname()}:{os.getpid()}"
