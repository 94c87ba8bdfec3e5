"""From per query rows to a trial's score on a group: the mean over queries, then the unweighted mean over data sets."""

import polars as pl

from results.selection import SelectionError

_SCORED = ["trial_id", "group", "data_set", "data_hash", "split", "measure", "score_similarity"]
_QUERIES = ["data_set", "data_hash", "split", "measure"]


class MixedMeasuresError(SelectionError):
    """The data sets of one group have different main measures: no mean over them."""


def data_set_scores(per_query: pl.DataFrame) -> pl.DataFrame:
    """The mean of the main measure over the queries of a data set, for each trial, group and score similarity.

    Evaluation writes a row for every query, 0 where nothing was found. A score that lacks a query which another trial
    has is no score: it is null. Columns: the key, `score` (0 to 1), `num_found` and `num_queries`.
    """
    main = per_query.filter(pl.col("is_main"))
    queries = main.group_by(_QUERIES).agg(num_queries=pl.col("query_id").n_unique())
    scores = main.group_by(_SCORED, maintain_order=True).agg(
        score=pl.col("value").mean(), num_found=pl.col("query_id").filter(pl.col("value").is_finite()).n_unique()
    )
    is_whole = pl.col("num_found") == pl.col("num_queries")
    whole = scores.join(queries, on=_QUERIES, maintain_order="left")
    return whole.with_columns(score=pl.when(is_whole).then("score"))


def query_gaps(per_query: pl.DataFrame) -> pl.DataFrame:
    """The data set scores that lack queries."""
    return data_set_scores(per_query).filter(pl.col("num_found") < pl.col("num_queries"))


def group_scores(per_query: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    """The unweighted mean of data set scores: one row per trial, group and score similarity in `expected`.

    Null where one of the expected data sets has no score. Columns: those of `expected` without the data set's, and
    `score`, `num_data_sets`.

    Raises:
        MixedMeasuresError: a group whose data sets have different main measures.
    """
    _refuse_mixed_measures(expected)
    scores = data_set_scores(per_query).select(*_SCORED, "score")
    found = expected.join(scores, on=_SCORED, how="left", maintain_order="left")
    key = [name for name in expected.columns if name not in ("data_set", "data_hash", "split")]
    return found.group_by(key, maintain_order=True).agg(score=mean_if_whole("score"), num_data_sets=pl.len())


def mean_if_whole(column: str) -> pl.Expr:
    """The mean of a group, null (not a mean of the rest) where one value is null."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).mean())


def _refuse_mixed_measures(expected: pl.DataFrame) -> None:
    measures = expected.group_by("group", maintain_order=True).agg(pl.col("measure").unique().sort())
    for group, names in measures.iter_rows():
        if len(names) > 1:
            raise MixedMeasuresError(
                f"group '{group}' has data sets with different main measures ({', '.join(names)}): there is no mean "
                f"over them; put them into separate groups"
            )
