"""This process's memory: give back what an earlier trial left, and the peak during a span of work."""

import contextlib
import ctypes
import gc
from pathlib import Path

import torch

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"  # Linux: sets VmHWM back to what is resident now (man proc_pid_clear_refs)


def release_memory() -> None:
    """Give freed memory back to the system: a worker that is used again otherwise keeps the pieces of every trial.

    What the first trial of a process finds there (modules, for the most part) is left out of later collections: going
    through it takes a third of a second each time, and a short trial takes less.
    """
    gc.collect()
    if not gc.get_freeze_count():
        gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def reset_peak() -> None:
    """Forget the peak so far, which in a used worker is an earlier trial's."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):  # then the peak since the process started stands, an upper bound
        _CLEAR.write_text(_RESET_PEAK)


def peak_memory_bytes(device: torch.device) -> int | None:
    """The peak since `reset_peak`, in bytes: allocated on an accelerator; on a CPU, as `peak_rss_bytes`."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_rss_bytes()


def peak_rss_bytes() -> int | None:
    """This process's resident memory, the peak since `reset_peak`, in bytes; None where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
