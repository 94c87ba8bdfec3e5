"""Groups of made-up scores."""

import numpy as np

from results.statistics.groups import DataSetScores, GroupScores

COLUMNS = ("cosine", "qnorm", "dnorm")


def scores(generator, *, num_seeds=3, num_queries=20, level=0.3, step=0.04):
    """(C, S, Q): a seed effect, a query effect, and a rest, all columns paired."""
    query = 0.1 * generator.normal(size=num_queries)
    return np.stack(
        [
            level
            + step * column
            + query
            + 0.02 * generator.normal(size=(num_seeds, 1))
            + 0.05 * generator.normal(size=(num_seeds, num_queries))
            for column in range(len(COLUMNS))
        ]
    )


def group(seed=0, *, name="beir", parts=None, trainings="minilm", num_seeds=3, level=0.3, spread=0.0):
    """Of data sets a and b, and c of two forums, each with its own number of queries; scores depend on `seed`.

    `spread`: the standard deviation, between data sets, of the step from one column to the next.
    """
    generator = np.random.default_rng(seed)
    parts = parts or {"a": "a", "b": "b", "c/one": "c", "c/two": "c"}
    steps = 0.04 + spread * np.random.default_rng(seed + 1000).normal(size=len(parts))
    return GroupScores(
        name=name,
        trainings=trainings,
        columns=COLUMNS,
        data_sets=tuple(
            DataSetScores(
                name=part,
                part_of=whole,
                values_CSQ=scores(generator, num_seeds=num_seeds, num_queries=12 + 3 * i, level=level, step=step),
            )
            for i, ((part, whole), step) in enumerate(zip(parts.items(), steps, strict=True))
        ),
    )
