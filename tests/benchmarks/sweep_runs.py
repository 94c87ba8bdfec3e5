"""A whole `densesweep run` as a process, and when each of its lines came: what a benchmark of sweeps measures by."""

import os
import re
import subprocess
import sys
import time
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
        cpu_s = 0.0
        for line in process.stdout:
            now = time.monotonic() - begun
            lines.append(line)
            if match := _LINE.match(line):
                seen.setdefault(match["title"], {}).setdefault(match["what"], now)
                cpu_s = _cpu_s(driver, cpu_s)
                if match["what"] == "finished":
                    seen[match["title"]].setdefault("cpu", cpu_s + sum(_cpu_s(p, 0) for p in _started_by(driver)))
    wall_s = time.monotonic() - begun
    if process.returncode or not seen or not all({"started", "finished"} <= set(times) for times in seen.values()):
        raise FailedRunError("".join(lines[-30:]))
    spans = tuple(_span(title, times) for title, times in seen.items())
    return SweepRun(wall_s=wall_s, driver_cpu_s=cpu_s, spans=spans)


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


def _cpu_s(process: psutil.Process, before: float) -> float:
    try:
        used = process.cpu_times()
    except psutil.Error:  # it has ended, or is ending
        return before
    return used.user + used.system
