"""Every query's main measure as dense arrays, one for each data set: what intervals and tests are computed from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from results.query_rows import QueryRows
from results.scores import main_values
from results.statistics.estimate import Floats
from results.statistics.groups import DataSetScores


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


def data_set_scores_of(
    scores: QueryScores, sides: Sequence[tuple[str, Sequence[str]]], *, name: str, part_of: str
) -> DataSetScores:
    """The scores of several trained similarities on one data set, a column for each of `sides`.

    Args:
        scores: of the data set.
        sides: (score similarity, trial ids in the order of their seeds) of each; none lacks a query.
        name: what the data set is called; contrasts pair the queries of data sets with one name.
        part_of: the data set that it counts as.
    """
    found = [scores.seeds_by_queries(trial_ids, similarity) for similarity, trial_ids in sides]
    values = [values_SQ for values_SQ in found if values_SQ is not None]
    assert len(values) == len(sides), "what lacks a query is not compared"
    return DataSetScores(name=name, part_of=part_of, values_CSQ=np.stack(values))


def query_scores(scored: pl.DataFrame, rows: QueryRows) -> dict[DataKey, QueryScores]:
    """The main measures of `Collected.scored` by data set; a data set in several groups comes once."""
    key = [name if name != "measure" else "main_measure" for name in DataKey._fields]
    once = scored.unique(["block", "trial_id"], keep="first", maintain_order=True)
    values = main_values(scored, rows).partition_by("data", as_dict=True, include_key=False)
    found = {}
    # By the blocks of the values: a data set's number is none of its key.
    for of_data in values.values():
        blocks = once.join(of_data.select("block").unique(), on="block", how="semi", maintain_order="left")
        found[DataKey(*blocks.select(key).row(0))] = _dense(of_data, blocks)
    return found


def _dense(values: pl.DataFrame, blocks: pl.DataFrame) -> QueryScores:
    queries = values.select(pl.col("query_id").unique()).with_columns(name=pl.col("query_id").cast(pl.String))
    queries = queries.sort("name").with_row_index("place").select("query_id", "place")
    places = blocks.select("block").unique(maintain_order=True).with_row_index("row")
    rows = values.join(queries, on="query_id", how="left", maintain_order="left")
    rows = rows.join(places, on="block", how="left", maintain_order="left")
    dense = np.full((places.height, queries.height), np.nan)
    dense[rows["row"].to_numpy(), rows["place"].to_numpy()] = rows["value"].to_numpy()
    found = blocks.join(places, on="block", maintain_order="left")
    return QueryScores(values_RQ=dense, rows=_places(found.select("trial_id", "score_similarity", "row").iter_rows()))


def _places(rows: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    return {(trial_id, similarity): row for trial_id, similarity, row in rows}
