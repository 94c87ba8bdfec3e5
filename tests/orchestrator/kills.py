"""Kill the process that runs a trial, as its status names it."""

import json
import os
import signal
from pathlib import Path


def kill_running_worker(folder: Path) -> int | None:
    """kill -9 one process that runs a trial of the sweep folder; its pid, or None while there is none."""
    for path in folder.glob("trials/*/status.json"):
        status = json.loads(path.read_text())
        pid = int(status["owner"].rpartition(":")[2]) if status["state"] == "running" else 0
        if pid and Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
            return pid
    return None
