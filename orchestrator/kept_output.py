"""Run a command and keep what it prints in a sweep folder, as it goes: it outlives the machine that printed it."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from orchestrator.storage import storage_of
from results.store import Store, open_store
from search_spaces.load import load_sweep

KEEP_OUTPUT = "--keep-output"
OUTPUT_PREFIX = "logs/driver-"
_KEEP_EVERY_S = 10.0
_LOOK_EVERY_S = 0.5
_CHUNK_BYTES = 1 << 16


def run_kept_again(file: Path, storage: str | None) -> int:
    """Run this very command without keeping its output, and keep that; returns its exit code.

    Raises:
        InputError: the file or its storage cannot be used.
    """
    store = open_store(storage_of(load_sweep(file), storage))
    arguments = [argument for argument in sys.argv[1:] if argument != KEEP_OUTPUT]
    return run_kept([sys.executable, "-m", "orchestrator.cli", *arguments], store)


def run_kept(command: Sequence[str], store: Store) -> int:
    """Run it with its output going here and to a log of the sweep folder; returns its exit code.

    In a process of its own, so that the last words of one that is killed are kept too. SIGTERM is handed on; Ctrl-C
    reaches both by itself.
    """
    key = f"{OUTPUT_PREFIX}{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    kept = _Kept(store, key)
    handlers = {signal.SIGINT: lambda number, frame: None, signal.SIGTERM: _hand_on(process)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        _copy(process, kept)
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        kept.close()
    return code if code >= 0 else 128 - code


def _copy(process: subprocess.Popen[bytes], kept: "_Kept") -> None:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    while True:
        if not select.select([descriptor], [], [], _LOOK_EVERY_S)[0]:
            if process.poll() is not None:  # what it started may live on and hold the pipe open
                return
            continue
        if not (chunk := os.read(descriptor, _CHUNK_BYTES)):
            return
        kept.add(chunk)
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _hand_on(process: subprocess.Popen[bytes]) -> "signal._HANDLER":
    def handle(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    return handle


class _Kept:
    """Writes what was printed every few seconds where there is more, and at the end; a failure ends nothing."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key
        self._text = bytearray()
        self._lock = threading.Lock()
        self._num_written = 0
        self._has_failed = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="kept output", daemon=True)
        self._thread.start()

    def add(self, chunk: bytes) -> None:
        """Take note of what was printed."""
        with self._lock:
            self._text += chunk

    def close(self) -> None:
        """Write the rest."""
        self._ended.set()
        self._thread.join()
        self._write()

    def _keep(self) -> None:
        while not self._ended.wait(_KEEP_EVERY_S):
            self._write()

    def _write(self) -> None:
        with self._lock:
            text = bytes(self._text)
        if len(text) == self._num_written:
            return
        try:
            self._store.write(self._key, text)
            self._num_written = len(text)
        except OSError as error:  # a full disk, or a server that is away: what it prints is not what the sweep is for
            if not self._has_failed:
                print(f"note: this output is not kept in {self._store.uri}: {error}", file=sys.stderr)
            self._has_failed = True
