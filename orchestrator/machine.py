"""What this machine has to give to trials."""

import math
import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # cgroup v2: 'MICROSECONDS PERIOD', or 'max PERIOD'


def available_cpus(quota: Path = _QUOTA) -> int:
    """The CPUs this process may use: its affinity, and the CPU quota of its container, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quota.is_file():
        limit, period = quota.read_text().split()
        if limit != "max":
            allowed = min(allowed, max(1, math.ceil(int(limit) / int(period))))
    return allowed
