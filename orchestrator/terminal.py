"""Keep the terminal for people: whatever libraries print goes to a log file, in every process and language."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from rich.console import Console

_PLAIN_WIDTH = 160


def plain_console(*, stderr: bool = False) -> Console:
    """Standard output, or error; a file or pipe takes whole table rows, where rich would assume 80 columns."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH)


@contextmanager
def chatter_to(log: Path, *, screen_on: Literal["stdout", "stderr"] = "stdout") -> Iterator[Console]:
    """Send file descriptors 1 and 2 of this process and its children to `log`; yield a console on a real one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept_out, kept_err = os.dup(1), os.dup(2)
    shown = kept_out if screen_on == "stdout" else kept_err
    try:
        with log.open("ab", buffering=0) as sink, os.fdopen(os.dup(shown), "w", encoding="utf-8") as screen:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
            yield Console(file=screen, soft_wrap=not os.isatty(shown))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # a full disk takes no more chatter
                stream.flush()
        os.dup2(kept_out, 1)
        os.dup2(kept_err, 2)
        os.close(kept_out)
        os.close(kept_err)
