"""A ratio of two contestants with its spread, from blocks that were run in pairs."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.harness import Block

_RESAMPLES = 2000
_INTERVAL = 0.95


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The median over pairs, the smallest and largest, and the median's bootstrap interval of 95 %."""

    median: float
    smallest: float
    largest: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}], all pairs {self.smallest:.2f} to {self.largest:.2f}"
        )


def ratio_of(values: Sequence[float]) -> Ratio:
    """Of ratios, one for each pair of neighbouring blocks. The interval's draws are seeded.

    Raises:
        ValueError: there is none.
    """
    if not values:
        raise ValueError("a ratio needs at least one pair of blocks")
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    tail = int(_RESAMPLES * (1 - _INTERVAL) / 2)
    return Ratio(
        median=statistics.median(values),
        smallest=min(values),
        largest=max(values),
        low=medians[tail],
        high=medians[-1 - tail],
    )


def speedup(ours: Sequence[Block], theirs: Sequence[Block], clock: str) -> Ratio:
    """How many times faster `ours` did the same work, by the 'wall' or 'cpu' clock."""
    return ratio_of([b.seconds(clock) / a.seconds(clock) for a, b in zip(ours, theirs, strict=True)])


def per_second(blocks: Sequence[Block], work: float, clock: str) -> float:
    """The median of `work` (of one block) over the block's seconds."""
    return statistics.median(work / block.seconds(clock) for block in blocks)
