"""Tells what fills a sweep folder, and what can be freed, while trials wait for space."""

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator

from orchestrator.events import EnteredPhase, Event
from orchestrator.program import command
from results.room import WAITING
from results.store import Store, local_folder
from results.usage import usage
from search_spaces.shown_sizes import shown_size

_AGAIN_AFTER_S = 300.0
_MAY_GO = {  # what nothing reads again, or only to go on faster
    "last checkpoints": "trials/*/last_checkpoint: no table reads them",
    "kept embeddings": "encodings/*/embeddings: no table reads them",
    "logs": "logs/: what libraries printed in earlier runs",
}


class SpaceNotice:
    """A listener that says it once, and again when trials wait for long."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self._store = store
        self._say = say
        self._said: float | None = None

    def __call__(self, event: Event) -> None:
        """Take note of trials that wait; looking at the folder may take a while, so a thread does."""
        if not isinstance(event, EnteredPhase) or not event.phase.startswith(WAITING):
            return
        now = time.monotonic()
        if self._said is None or now - self._said > _AGAIN_AFTER_S:
            self._said = now
            threading.Thread(target=self._tell, name="space-notice", daemon=True).start()

    def _tell(self) -> None:
        with contextlib.suppress(OSError):  # the next notice tries again
            self._say("\n".join(space_lines(self._store)))


def space_lines(store: Store) -> Iterator[str]:
    """What takes how much, and what may go."""
    used = usage(store)
    yield f"Trials wait for space; they go on by themselves when there is some. What {store.uri} holds:"
    for kind, num_bytes in used.items():
        yield f"  {shown_size(num_bytes):>10}  {kind}"
    if folder := local_folder(store.uri):
        disk = shutil.disk_usage(folder)
        yield f"The disk has {shown_size(disk.free)} left of {shown_size(disk.total)}. To free some:"
    else:
        yield "To free some:"
    yield f"  {command('doctor', store.uri)} shows what was left over and whose trials no sweep asks for"
    for kind, why in _MAY_GO.items():
        if kind in used:
            yield f"  {shown_size(used[kind])} may be deleted: {why}"
    yield "  or give more: checkpoints.quota in the sweep file (it counts from the next run), or a larger disk"
