"""What a large batch costs with GradCache: time per pair and peak memory of batch 512 against batch 64.

Batch 64 holds the graphs of all its texts; batch 512 is differentiated CHUNK_SIZE texts at a time.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.specs import Precision
from tests.benchmarks import data, ours
from tests.benchmarks.data import Missing
from tests.benchmarks.harness import Contestant, in_turn
from tests.benchmarks.jobs import TrainingJob, minilm_folder, single_token_words
from tests.benchmarks.options import Options
from tests.benchmarks.spread import Ratio, speedup

SMALL, LARGE = 64, 512
CHUNK_SIZE = 2 * SMALL  # texts: as many as the small batch holds
_SMALL_STEPS = LARGE // SMALL  # of as many pairs as one large step
TIME_TARGET, MEMORY_TARGET = 1.3, 1.5
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Result:
    """Batch 512 over batch 64: seconds of a pair, and peak resident memory above that of the imported libraries."""

    data: str
    precision: Precision
    threads: int
    cpu: Ratio
    wall: Ratio
    small_bytes: int
    large_bytes: int

    @property
    def memory(self) -> float:
        """The ratio of the peaks."""
        return self.large_bytes / self.small_bytes

    def __str__(self) -> str:
        case = (
            f"{self.data:<10} {LARGE} in chunks of {CHUNK_SIZE} over {SMALL}, {self.precision} threads {self.threads}"
        )
        time = f"seconds of a pair: cpu x {self.cpu}  wall x {self.wall}  (target {TIME_TARGET})"
        peaks = f"{self.large_bytes / _MIB:.0f} : {self.small_bytes / _MIB:.0f} MiB"
        return f"{case}  {time}  peak memory x {self.memory:.2f}, {peaks}  (target {MEMORY_TARGET})"


def run(options: Options) -> Iterator[Result | str]:
    """One result for each data set and precision; a text says why one is left out."""
    with tempfile.TemporaryDirectory() as folder:
        for name in options.data:
            for precision in options.precisions:
                yield _measured(name, precision, options, Path(tempfile.mkdtemp(dir=folder)))


def _measured(name: str, precision: Precision, options: Options, folder: Path) -> Result | str:
    jobs = _jobs(name, precision, options, folder)
    if isinstance(jobs, Missing):
        return f"{name}: left out, {jobs.reason}"
    contestants = [
        Contestant(name=side, run=ours.run, job=job, environment=job.environment) for side, job in jobs.items()
    ]
    blocks = in_turn(contestants, rounds=options.rounds, units={"large": 1, "small": _SMALL_STEPS})
    small, large = blocks["small"][1:], blocks["large"][1:]
    small_bytes, large_bytes = small[-1].peak_bytes, large[-1].peak_bytes
    if small_bytes is None or large_bytes is None:
        return f"{name}: left out, this system does not tell a process's peak memory"
    return Result(
        data=name,
        precision=precision,
        threads=options.threads,
        cpu=speedup(small, large, "cpu"),
        wall=speedup(small, large, "wall"),
        small_bytes=small_bytes,
        large_bytes=large_bytes,
    )


def _jobs(name: str, precision: Precision, options: Options, folder: Path) -> dict[str, TrainingJob] | Missing:
    model = minilm_folder()
    steps = 2 + options.rounds  # one to warm up, and one that is not reached
    entry = data.entry_of(name, folder / "one_length", single_token_words(model), LARGE * steps)
    if isinstance(entry, Missing):
        return entry
    large = TrainingJob(
        model=model,
        entry=entry,
        batch=LARGE,
        precision=precision,
        steps=steps,
        threads=options.threads,
        chunk_size=CHUNK_SIZE,
    )
    return {"large": large, "small": replace(large, batch=SMALL, steps=steps * _SMALL_STEPS, chunk_size=None)}
