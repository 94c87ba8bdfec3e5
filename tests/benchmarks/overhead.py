"""What a trial costs beyond its work: sweeps of trials that do next to nothing, against bare Ray Tune.

Our side is a whole `densesweep run`: sweep folder, MLflow, Ray, and trials that really train (one step of a BERT of two
narrow layers, eight pairs), publish a checkpoint and are evaluated (48 documents). All of that is counted as overhead.
The other side is a function trainable that imports the same stack and reports once. Both get as many slots as there are
CPUs; seconds of a trial are, on both sides, those from one trial's end to the next: no first start is among them.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.machine import available_cpus
from tests.benchmarks.options import Options
from tests.benchmarks.sweep_runs import timed_run
from tests.benchmarks.tiny_sweep import write_tiny_sweep

_NUM_BARE = 12
_BARE = "tests.benchmarks.bare_tune"


@dataclass(frozen=True, kw_only=True)
class Bare:
    """Bare Ray Tune."""

    num_trials: int
    per_trial_s: float

    def __str__(self) -> str:
        return f"bare Ray Tune, {self.num_trials} trials: {self.per_trial_s:.2f} s a trial"


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """A sweep of no-op trials.

    Attributes:
        per_trial_s: from one trial's end to the next.
        cpu_per_trial_s: what driver, Ray and workers used of CPUs from one trial's end to the next.
        flatness: seconds of a trial among the last hundred over those among the first hundred (of fewer: halves).
        cpu_flatness: the same of CPU seconds, which other work on the machine changes little.
        first_end_s: until the first trial was over: imports, Ray, the first worker.
        after_last_s: from the last trial's end to that of the process: tables, MLflow.
        driver_cpu_s: of the driver's process, for each trial.
    """

    num_trials: int
    per_trial_s: float
    cpu_per_trial_s: float
    flatness: float
    cpu_flatness: float
    first_end_s: float
    after_last_s: float
    driver_cpu_s: float

    def __str__(self) -> str:
        return (
            f"densesweep, {self.num_trials} trials: {self.per_trial_s:.2f} s a trial, {self.cpu_per_trial_s:.2f} CPU s "
            f"({self.driver_cpu_s:.3f} of the driver); last to first hundred {self.flatness:.2f}, CPU "
            f"{self.cpu_flatness:.2f}; "
            f"{self.first_end_s:.0f} s until the first end, {self.after_last_s:.1f} s after the last"
        )


def run(options: Options) -> Iterator[Bare | Overhead]:
    """Bare Tune, then ours, a sweep of each size."""
    yield _bare()
    yield from map(_ours, options.trials)


def _bare() -> Bare:
    command = [sys.executable, "-m", _BARE, str(_NUM_BARE), str(available_cpus())]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    ends = json.loads(done.stdout.splitlines()[-1])
    return Bare(num_trials=_NUM_BARE, per_trial_s=_pace_s(ends))


def _ours(num_trials: int) -> Overhead:
    with tempfile.TemporaryDirectory(prefix="densesweep-overhead-") as home:
        run = timed_run(write_tiny_sweep(Path(home), num_seeds=num_trials))
    ends, cpu = run.ends_s, run.cpu_at_ends_s
    part = min(100, len(ends) // 2)
    return Overhead(
        num_trials=len(ends),
        per_trial_s=_pace_s(ends),
        cpu_per_trial_s=_pace_s(cpu),
        flatness=_pace_s(ends[-part:]) / _pace_s(ends[:part]),
        cpu_flatness=_pace_s(cpu[-part:]) / _pace_s(cpu[:part]),
        first_end_s=ends[0],
        after_last_s=run.wall_s - ends[-1],
        driver_cpu_s=run.driver_cpu_s / len(ends),
    )


def _pace_s(ends_s: Sequence[float]) -> float:
    """Seconds from one end to the next."""
    return (ends_s[-1] - ends_s[0]) / (len(ends_s) - 1)
