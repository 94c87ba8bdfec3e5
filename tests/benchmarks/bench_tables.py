"""All tables of a large sweep, from its files to Markdown, by the command itself, beside a pandas loop's bootstrap.

1,000 trials (40 cells of 5 similarities and 5 seeds) on 30 data sets of 500 queries are 15 million per query rows in
30,000 files. `densesweep tables` reads them, and computes every table that says something of the sweep: gains with
their intervals, tests, 1,000 bootstrap draws, ranks, claims, cost. Time and memory are those of its process. The loop
is that of `bench_bootstrap`: it is timed on a few draws over a part of as many scores, and scaled up, since all of it
takes hours.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from results.statistics.bootstrap import NUM_DRAWS, Draws
from tests.benchmarks.bench_bootstrap import LOOP_DRAWS, made_study, time_loop
from tests.benchmarks.made_sweep import Size, make_sweep
from tests.benchmarks.options import Options

_LOOP_CELLS = 4
_COMMAND = "from orchestrator.cli import main; main()"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one command took, and the bootstrap of a pandas loop over as many scores and draws."""

    command: str
    num_rows: int
    num_files: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    num_tables: int
    loop_cpu_s: float

    def __str__(self) -> str:
        faster = self.loop_cpu_s / self.cpu_s
        return (
            f"{self.command}: {self.num_rows:,} rows in {self.num_files:,} files, {self.num_tables} tables: "
            f"{self.wall_s:.1f} s wall, {self.cpu_s:.1f} s of cpu, {self.peak_bytes / 2**30:.2f} GiB at its peak; "
            f"pandas loop of the bootstrap alone {self.loop_cpu_s:,.0f} s of cpu (scaled up): x {faster:,.0f}"
        )


def run(options: Options) -> Iterator[Result]:
    """From the sweep's own files, then from the folder that `collect` makes of them."""
    yield from measure(Size())


def measure(size: Size) -> Iterator[Result]:
    """The command on a sweep of that size."""
    loop_cpu_s = _loop_cpu_s(size)
    with tempfile.TemporaryDirectory(prefix="densesweep-tables-") as home:
        sweep, collected = Path(home, "sweep"), Path(home, "collected")
        num_files = make_sweep(sweep, size)
        yield _measured("tables SWEEP", sweep, num_files, size, loop_cpu_s)
        _run("collect", str(sweep), "-o", str(collected))
        files = sum(1 for path in collected.iterdir() if path.is_file())
        yield _measured("tables COLLECTED", collected, files, size, loop_cpu_s)


def _measured(name: str, source: Path, num_files: int, size: Size, loop_cpu_s: float) -> Result:
    output = source.with_name(f"{source.name}-tables")
    wall_s, cpu_s, peak_bytes = _run("tables", str(source), "--allow-missing", "-o", str(output))
    return Result(
        command=name,
        num_rows=size.num_rows,
        num_files=num_files,
        wall_s=wall_s,
        cpu_s=cpu_s,
        peak_bytes=peak_bytes,
        num_tables=sum(1 for _ in output.glob("*.md")),
        loop_cpu_s=loop_cpu_s,
    )


def _run(*arguments: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of the command, and the highest memory of its process."""
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"densesweep {' '.join(arguments)}: {errors.decode()[-2000:]}")
    return perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _loop_cpu_s(size: Size) -> float:
    study = made_study(_LOOP_CELLS, size.num_data_sets, size.num_queries)
    seconds, _ = time_loop(study, _LOOP_CELLS, Draws(num_draws=max(NUM_DRAWS, LOOP_DRAWS)))
    num_scores = sum(part.values_CSQ.size for part in study.data_sets)
    return seconds * size.num_rows / num_scores * NUM_DRAWS / LOOP_DRAWS
