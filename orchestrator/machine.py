"""What this machine has to give to trials."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

_MEMORY_EVENTS = Path("/sys/fs/cgroup/memory.events")  # cgroup v2: those of this container
_VM_EVENTS = Path("/proc/vmstat")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: 'MICROSECONDS PERIOD', or 'max PERIOD'


def available_cpus(quota: Path = _QUOTA) -> int:
    """The CPUs this process may use: its affinity, and the CPU quota of its container, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quota.is_file():
        limit, period = quota.read_text().split()
        if limit != "max":
            allowed = min(allowed, max(1, math.ceil(int(limit) / int(period))))
    return allowed


def oom_kills(sources: Sequence[Path] = (_MEMORY_EVENTS, _VM_EVENTS)) -> int | None:
    """How many processes the kernel has ended here for want of memory; None where it does not tell.

    That of the container where there is one: others on the same machine do not count.
    """
    for source in sources:
        if not source.is_file():
            continue
        counts = dict(line.split(maxsplit=1) for line in source.read_text().splitlines() if line)
        if "oom_kill" in counts:
            return int(counts["oom_kill"])
    return None
