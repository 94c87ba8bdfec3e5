"""Copy checkpoints to their runs in a thread of their own: no number waits for a file of gigabytes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.background import Background
from results.layout import checkpoint_prefix
from results.store import Store


class CheckpointUploads:
    """Uploads in order, each tried once; what failed is tried again when it is asked for again.

    `upload(run_id, folder)` copies; `done(trial_id, checkpoint_hash)` is called, in this thread, when it has.
    """

    def __init__(
        self, store: Store, upload: Callable[[str, Path], None], done: Callable[[str, str], None], *, name: str
    ) -> None:
        self._store = store
        self._upload = upload
        self._done = done
        self._background = Background(name)
        self._queued: set[str] = set()
        self._lacking: dict[str, str] = {}  # trial to checkpoint hash

    @property
    def failure(self) -> str | None:
        """How many checkpoints are lacking, and why the last of them failed; None where none is."""
        if not self._lacking:
            return None
        return f"{len(self._lacking)} checkpoints not uploaded: {self._background.failure or 'not tried yet'}"

    def submit(self, trial_id: str, checkpoint_hash: str, run_id: str) -> None:
        """Queue the checkpoint of a trial, unless it is queued."""
        if trial_id in self._queued:
            return
        self._queued.add(trial_id)
        self._lacking[trial_id] = checkpoint_hash
        copy = partial(self._copy, trial_id, checkpoint_hash, run_id)
        self._background.submit(f"checkpoint of {trial_id}", copy, recovers=True)

    def close(self, timeout_s: float) -> bool:
        """Work off what is queued and end the thread; say whether that came within `timeout_s`."""
        return self._background.close(timeout_s)

    def _copy(self, trial_id: str, checkpoint_hash: str, run_id: str) -> None:
        try:
            with self._store.get_folder(checkpoint_prefix(trial_id)) as folder:
                self._upload(run_id, folder)
        finally:
            self._queued.discard(trial_id)
        self._lacking.pop(trial_id, None)
        self._done(trial_id, checkpoint_hash)
