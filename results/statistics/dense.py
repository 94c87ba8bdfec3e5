"""From rows to a dense array: columns by seeds by queries, whole and in one order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from results.statistics.estimate import Floats


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Scores of one data set, values_CSQ, and what its axes stand for."""

    values_CSQ: Floats
    columns: tuple[str, ...]
    seeds: tuple[int, ...]
    queries: tuple[str, ...]


def dense_scores(rows: pl.DataFrame, columns: Sequence[str]) -> Dense:
    """The values of `rows` (column, seed, query_id, value) as an array; seeds and queries in rising order.

    Rows of other columns are left out. Every column needs every seed and query that any of them has: a crossed layout
    has no holes, and a mean over what is left would compare unlike with unlike.

    Raises:
        ValueError: no row, a hole, a value that is not finite, or two rows for one place.
    """
    chosen = rows.filter(pl.col("column").is_in(list(columns)))
    if chosen.is_empty():
        raise ValueError(f"no row of {', '.join(columns)}")
    seeds, queries = chosen["seed"].unique().sort().to_list(), chosen["query_id"].unique().sort().to_list()
    place_R = np.ravel_multi_index(
        (
            chosen["column"].cast(pl.Enum(list(columns))).to_physical().to_numpy(),
            np.searchsorted(seeds, chosen["seed"].to_numpy()),
            chosen["query_id"].cast(pl.Enum(queries)).to_physical().to_numpy(),
        ),
        shape := (len(columns), len(seeds), len(queries)),
    )
    values = np.full(shape, np.nan)
    values.ravel()[place_R] = chosen["value"].to_numpy()
    found = Dense(values_CSQ=values, columns=tuple(columns), seeds=tuple(seeds), queries=tuple(queries))
    _refuse_repeats(found, place_R)
    _refuse_holes(found)
    return found


def _refuse_repeats(found: Dense, place_R: np.ndarray) -> None:
    counts = np.bincount(place_R, minlength=found.values_CSQ.size)
    if counts.max() > 1:
        raise ValueError(f"{counts.max()} rows for {_where(found, int(counts.argmax()))}: which one counts?")


def _refuse_holes(found: Dense) -> None:
    holes = np.flatnonzero(~np.isfinite(found.values_CSQ.ravel()))
    if holes.size:
        raise ValueError(
            f"{holes.size} of {found.values_CSQ.size} scores are missing or not finite, "
            f"the first for {_where(found, int(holes[0]))}"
        )


def _where(found: Dense, place: int) -> str:
    column, seed, query = (int(i) for i in np.unravel_index(place, found.values_CSQ.shape))
    return f"{found.columns[column]}, seed {found.seeds[seed]}, query '{found.queries[query]}'"
