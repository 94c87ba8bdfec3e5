"""A whole `densesweep run` as a process, and when each of its lines came: what a benchmark of sweeps measures by."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_LINE = re.compile(r"^(?P<title>(probe )?\S+): (?P<what>started|training|evaluating|finished|failed)")


@dataclass(frozen=True, kw_only=True)
class Span:
    """One trial or probe, in seconds since the run was started: given to a worker, at work, over.

    `cpu_s` is what the driver and all that it started had used of CPUs until its end.
    """

    title: str
    started_s: float
    working_s: float
    ended_s: float
    cpu_s: float

    @property
    def work_s(self) -> float:
        """How long it trained and evaluated, or probed."""
        return self.ended_s - self.working_s


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """A run that is over. `driver_cpu_s` is that of the driver's own process, all its threads."""

    wall_s: float
    driver_cpu_s: float
    spans: tuple[Span, ...]

    @property
    def ends_s(self) -> tuple[float, ...]:
        """When each trial was over, in that order."""
        return tuple(span.ended_s for span in self._trials)

    @property
    def cpu_at_ends_s(self) -> tuple[float, ...]:
        """What the run had used of CPUs at each of these times."""
        return tuple(span.cpu_s for span in self._trials)

    @property
    def _trials(self) -> list[Span]:
        trials = (span for span in self.spans if not span.title.startswith("probe "))
        return sorted(trials, key=lambda span: span.ended_s)


class FailedRunError(RuntimeError):
    """The run did not finish all of its trials; the message has its last output."""


def timed_run(file: Path) -> SweepRun:
    """Run a sweep file. Its lines reach us when the driver hears of what they tell, at once at a change of phase.

    Raises:
        FailedRunError: not all of it finished, or its lines do not say when.
    """
    command = [sys.executable, "-m", "orchestrator.cli", "run", str(file)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        driver = psutil.Process(process.pid)
        assert process.stdout
        seen: dict[str, dict[str, float]] = {}
        lines: list[str] = []
        used_s: dict[psutil.Process, float] = {}
        for line in process.stdout:
            now = time.monotonic() - begun
            lines.append(line)
            if match := _LINE.match(line):
                seen.setdefault(match["title"], {}).setdefault(match["what"], now)
                used_s |= _cpu_s([driver])
                if match["what"] == "finished":
                    used_s |= _cpu_s(_started_by(driver))  # those that have ended keep what they had used
                    seen[match["title"]].setdefault("cpu", sum(used_s.values()))
    wall_s = time.monotonic() - begun
    if process.returncode or not seen or not all({"started", "finished"} <= set(times) for times in seen.values()):
        raise FailedRunError("".join(lines[-30:]))
    spans = tuple(_span(title, times) for title, times in seen.items())
    return SweepRun(wall_s=wall_s, driver_cpu_s=used_s[driver], spans=spans)


def _span(title: str, times: dict[str, float]) -> Span:
    working = times.get("training", times.get("evaluating", times["started"]))
    return Span(
        title=title,
        started_s=times["started"],
        working_s=working,
        ended_s=times["finished"],
        cpu_s=times["cpu"],
    )


def _started_by(driver: psutil.Process) -> list[psutil.Process]:
    try:
        return driver.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _cpu_s(processes: Iterable[psutil.Process]) -> dict[psutil.Process, float]:
    """What each has used of CPUs, without those that have ended or are ending."""
    found = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            found[process] = used.user + used.system
    return found
