"""Every query's main measure as dense arrays, one for each data set: what intervals and tests are computed from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from results.statistics.estimate import Floats


class DataKey(NamedTuple):
    """A data set as evaluated."""

    data_set: str
    data_hash: str
    split: str
    tier: str
    measure: str


@dataclass(frozen=True, kw_only=True)
class QueryScores:
    """The scores of all trials on one data set.

    Attributes:
        values_RQ: 0 to 1, a row for each trial and score similarity; nan where a trial lost a query. Queries stand in
            the order of their ids, those that any trial has.
        rows: the row of (trial id, score similarity).
    """

    values_RQ: Floats
    rows: Mapping[tuple[str, str], int]

    def seeds_by_queries(self, trial_ids: Sequence[str], similarity: str) -> Floats | None:
        """(S, Q): the scores of these trials, one a seed; None where one of them lacks a query."""
        keys = [(trial_id, similarity) for trial_id in trial_ids]
        if not all(key in self.rows for key in keys):
            return None
        values_SQ: Floats = self.values_RQ[[self.rows[key] for key in keys]]
        return values_SQ if np.isfinite(values_SQ).all() else None


def query_scores(per_query: pl.DataFrame) -> dict[DataKey, QueryScores]:
    """The main measure of `Collected.per_query` by data set; a data set in several groups comes once."""
    columns = (*DataKey._fields, "group", "trial_id", "score_similarity", "query_id", "value")
    main = per_query.lazy().filter(pl.col("is_main")).select(columns).collect()
    parts = main.partition_by(*DataKey._fields, as_dict=True, include_key=False)
    return {DataKey(*key): _dense(_of_one_group(rows)) for key, rows in parts.items()}


def _of_one_group(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("group") == rows["group"][0])


def _dense(rows: pl.DataFrame) -> QueryScores:
    by = ["trial_id", "score_similarity"]
    pairs = rows.select(by).unique(maintain_order=True).with_row_index("row")
    queries = rows["query_id"].unique().sort()
    row_R = rows.select(by).join(pairs, on=by, how="left", maintain_order="left")["row"].to_numpy()
    query_R = rows["query_id"].cast(pl.Enum(queries)).to_physical().to_numpy()
    values = np.full((pairs.height, len(queries)), np.nan)
    values[row_R, query_R] = rows["value"].to_numpy()
    return QueryScores(values_RQ=values, rows=_places(pairs.select("trial_id", "score_similarity", "row").iter_rows()))


def _places(rows: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    return {(trial_id, similarity): row for trial_id, similarity, row in rows}
