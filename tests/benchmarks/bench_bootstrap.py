"""The crossed bootstrap and two-way intervals of a whole study, against a pandas groupby loop over the same draws.

1,000 trials (67 cells of 5 similarities and 3 seeds) on 30 data sets of 500 queries are 15 million scores. Ours draws
all of them 1,000 times and fits the two-way model of every cell's gains. The loop draws rows the way one would write it
first: for each draw repeat the drawn rows of a data set, group by cell and similarity, take means. It is timed on a few
draws of a part of the cells, after both were found to give the same means, and scaled up, since all of it takes hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter, process_time

import numpy as np
import pandas as pd

from results.statistics.bootstrap import Draws, bootstrap_group_means, resampling_weights
from results.statistics.contrasts import paired_gain
from results.statistics.estimate import Floats
from results.statistics.groups import DataSetScores, GroupScores
from tests.benchmarks.harness import status_bytes
from tests.benchmarks.options import Options

SIMILARITIES = ("cosine", "dot", "qnorm", "dnorm", "learnable")
NUM_CELLS, NUM_SEEDS, NUM_DATA_SETS, NUM_QUERIES = 67, 3, 30, 500
NUM_DRAWS = 1000
LOOP_CELLS, LOOP_DRAWS = 4, 5


@dataclass(frozen=True, kw_only=True)
class Result:
    """Seconds of all draws and of all two-way gains, those of the loop for as many draws and rows, and memory."""

    num_rows: int
    bootstrap_cpu_s: float
    bootstrap_wall_s: float
    two_way_cpu_s: float
    loop_cpu_s: float
    peak_bytes: int | None

    def __str__(self) -> str:
        peak = "?" if self.peak_bytes is None else f"{self.peak_bytes / 2**30:.2f}"
        return (
            f"{self.num_rows:,} scores, {NUM_DRAWS} draws: bootstrap {self.bootstrap_cpu_s:.1f} s of cpu "
            f"({self.bootstrap_wall_s:.1f} s wall), two-way model of all gains {self.two_way_cpu_s:.1f} s; pandas loop "
            f"{self.loop_cpu_s:,.0f} s of cpu (scaled up): x {self.loop_cpu_s / self.bootstrap_cpu_s:,.0f}; peak "
            f"memory of the process {peak} GiB"
        )


def run(options: Options) -> Iterator[Result]:
    """One measurement."""
    yield measure()


def measure(
    *,
    num_cells: int = NUM_CELLS,
    num_data_sets: int = NUM_DATA_SETS,
    num_queries: int = NUM_QUERIES,
    num_draws: int = NUM_DRAWS,
) -> Result:
    """Ours on the whole study, the loop on a part of it."""
    study = made_study(num_cells, num_data_sets, num_queries)
    draws = Draws(num_draws=num_draws)
    wall_s, cpu_s = perf_counter(), process_time()
    means_BC = bootstrap_group_means(study, draws)
    wall_s, cpu_s = perf_counter() - wall_s, process_time() - cpu_s
    two_way_s = process_time()
    for cell in range(num_cells):
        part = cell_of(study, cell)
        for similarity in SIMILARITIES[1:]:
            paired_gain(part, similarity, SIMILARITIES[0])
    two_way_s = process_time() - two_way_s
    peak_bytes = status_bytes("VmHWM")
    loop_s, loop_BC = time_loop(study, min(LOOP_CELLS, num_cells), draws)
    if not np.allclose(loop_BC, means_BC[: len(loop_BC), : loop_BC.shape[1]], atol=1e-10):
        raise RuntimeError("the loop and the bootstrap give different means: unequal work is not compared")
    done = LOOP_DRAWS * min(LOOP_CELLS, num_cells)
    return Result(
        num_rows=sum(part.values_CSQ.size for part in study.data_sets),
        bootstrap_cpu_s=cpu_s,
        bootstrap_wall_s=wall_s,
        two_way_cpu_s=two_way_s,
        loop_cpu_s=loop_s * num_draws * num_cells / done,
        peak_bytes=peak_bytes,
    )


def made_study(num_cells: int, num_data_sets: int, num_queries: int) -> GroupScores:
    """All cells side by side as columns; scores are uniform."""
    generator = np.random.default_rng(0)
    columns = tuple(f"{cell} {name}" for cell in range(num_cells) for name in SIMILARITIES)
    data_sets = tuple(
        DataSetScores(name=f"{j}", part_of=f"{j}", values_CSQ=generator.random((len(columns), NUM_SEEDS, num_queries)))
        for j in range(num_data_sets)
    )
    return GroupScores(name="study", trainings="study", columns=columns, data_sets=data_sets)


def cell_of(study: GroupScores, cell: int) -> GroupScores:
    """One cell of it, its columns named by similarity."""
    chosen = slice(cell * len(SIMILARITIES), (cell + 1) * len(SIMILARITIES))
    parts = tuple(replace(part, values_CSQ=part.values_CSQ[chosen]) for part in study.data_sets)
    return replace(study, columns=SIMILARITIES, data_sets=parts)


def time_loop(study: GroupScores, num_cells: int, draws: Draws) -> tuple[float, Floats]:
    """CPU seconds of LOOP_DRAWS draws over some cells with pandas, and their group means (draws, columns)."""
    frames = [_frame(part, num_cells * len(SIMILARITIES)) for part in study.data_sets]
    seeds_BS = resampling_weights(draws, f"seeds of {study.trainings}", NUM_SEEDS)
    queries = {
        part.name: resampling_weights(draws, f"queries of {part.name}", part.values_CSQ.shape[2])
        for part in study.data_sets
    }
    cpu_s = process_time()
    means = []
    for draw in range(LOOP_DRAWS):
        of_data_sets = []
        for part, frame in zip(study.data_sets, frames, strict=True):
            seed_times = np.rint(seeds_BS[draw] * NUM_SEEDS).astype(int)
            query_times = np.rint(queries[part.name][draw] * part.values_CSQ.shape[2]).astype(int)
            drawn = frame.loc[frame.index.repeat(seed_times[frame["seed"]] * query_times[frame["query"]])]
            of_data_sets.append(drawn.groupby("column")["value"].mean())
        means.append(pd.concat(of_data_sets, axis=1).mean(axis=1).to_numpy())
    return process_time() - cpu_s, np.array(means)


def _frame(part: DataSetScores, num_columns: int) -> pd.DataFrame:
    values_CSQ = part.values_CSQ[:num_columns]
    column, seed, query = np.indices(values_CSQ.shape).reshape(3, -1)
    return pd.DataFrame({"column": column, "seed": seed, "query": query, "value": values_CSQ.ravel()})
