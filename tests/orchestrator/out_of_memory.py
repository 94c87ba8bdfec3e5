"""Control groups of memory, in which the kernel ends what takes too much."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_LEAVING_S = 30.0  # that a process which the kernel ends takes at most to give its memory back


@contextlib.contextmanager
def cgroup(name: str) -> Iterator[Path]:
    """A control group of memory of its own, of either version."""
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        limit = root / name / ("memory.limit_in_bytes" if root.name == "memory" else "memory.max")
        try:
            (root / name).mkdir()
        except OSError:
            continue
        try:
            if not limit.exists():
                continue
            yield limit
            return
        finally:
            _remove(root / name)
    pytest.skip("no control group can be made here")


def _remove(group: Path) -> None:
    """Once it is empty. A process is told dead before the kernel has taken it out of its group."""
    until = time.monotonic() + _LEAVING_S
    while (group / "cgroup.procs").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    group.rmdir()
