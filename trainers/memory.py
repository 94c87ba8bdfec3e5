"""The peak of this process's resident memory during a span of work."""

import contextlib
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"  # Linux: sets VmHWM back to what is resident now (man proc_pid_clear_refs)


def reset_peak() -> None:
    """Forget the peak so far, which in a used worker is an earlier trial's."""
    with contextlib.suppress(OSError):  # then the peak since the process started stands, an upper bound
        _CLEAR.write_text(_RESET_PEAK)


def peak_rss_bytes() -> int | None:
    """The peak since `reset_peak`, in bytes; None where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
