"""From per query rows to a trial's score on a group: the mean over queries, then the unweighted mean over data sets.

A data set of several parts, such as CQADupStack of 12 forums, is the unweighted mean over them, and counts once.
"""

from collections.abc import Sequence

import polars as pl

from results.query_rows import QueryRows
from results.selection import SelectionError, refuse_mixed_tiers

_SCORED = ["trial_id", "group", "data_set", "data_hash", "split", "tier", "measure", "score_similarity"]
_QUERIES = ["data_set", "data_hash", "split", "tier", "measure"]


ROWS_MISSING = "its rows are missing"  # the reason of a number that follows from what `collect` lists as missing


class MixedMeasuresError(SelectionError):
    """The data sets of one group have different main measures: no mean over them."""


def data_set_scores(scored: pl.DataFrame, rows: QueryRows) -> pl.DataFrame:
    """The mean of the main measure over the queries of a data set, for each trial, group and score similarity.

    Evaluation writes a row for every query, 0 where nothing was found. A score that lacks a query which another trial
    has is no score: it is null. Columns: the key, `score` (0 to 1), `num_found` and `num_queries`. `scored` and `rows`
    are those of `results.collect.Collected`.
    """
    main = main_values(scored, rows)
    is_found = pl.col("value").is_finite()
    of_block = main.group_by("block").agg(
        score=pl.col("value").mean(), num_found=pl.col("query_id").filter(is_found).n_unique()
    )
    queries = main.group_by("data").agg(num_queries=pl.col("query_id").n_unique())
    data = _numbered(scored).select("block", "data")
    of_block = of_block.join(data, on="block").join(queries, on="data").drop("data")
    scores = scored.rename({"main_measure": "measure"}).join(of_block, on="block", how="inner", maintain_order="left")
    is_whole = pl.col("num_found") == pl.col("num_queries")
    return scores.with_columns(score=pl.when(is_whole).then("score")).select(
        *_SCORED, "score", "num_found", "num_queries"
    )


def main_values(scored: pl.DataFrame, rows: QueryRows) -> pl.DataFrame:
    """The values of main measures: `block`, `query_id`, `value` and `data`, the number of the data set as evaluated."""
    blocks = _numbered(scored).with_columns(pl.col("main_measure").cast(pl.Categorical))
    joined = rows.values.lazy().join(blocks.lazy(), on="block", maintain_order="left")
    is_main = pl.col("measure") == pl.col("main_measure")
    return joined.filter(is_main).select("block", "query_id", "value", "data").collect()


def _numbered(scored: pl.DataFrame) -> pl.DataFrame:
    """Each block once, with its main measure and the number of its data set."""
    data = [name if name != "measure" else "main_measure" for name in _QUERIES]
    once = scored.unique("block", keep="first", maintain_order=True)
    numbers = once.select(data).unique(maintain_order=True).with_row_index("data")
    return (
        once.select("block", *data)
        .join(numbers, on=data, maintain_order="left")
        .select("block", "main_measure", "data")
    )


def query_gaps(scores: pl.DataFrame) -> pl.DataFrame:
    """The data set scores that lack queries, of those that `data_set_scores` gives."""
    return scores.filter(pl.col("num_found") < pl.col("num_queries"))


def group_means(scores: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    """The unweighted mean of data set scores: one row per trial, group and score similarity in `expected`.

    Null where one of the expected data sets, or a part of one, has no score. `scores` are those of `data_set_scores`.
    Columns: those of `expected` without the data set's, and `score`, `num_data_sets`, in which a data set of several
    parts counts once.

    Raises:
        MixedMeasuresError: a group whose data sets have different main measures.
        SelectionError: some of the scores are on pools, and others over whole corpora.
    """
    refuse_mixed_measures(expected)
    refuse_mixed_tiers(expected)
    key = [name for name in _SCORED if name != "group"]
    once = scores.select(*key, "score").unique(key, keep="first", maintain_order=True)
    found = parts_averaged(expected.join(once, on=key, how="left", maintain_order="left"), means=["score"])
    key = [name for name in expected.columns if name not in ("data_set", "data_hash", "split", "tier", "part_of")]
    return found.group_by(key, maintain_order=True).agg(score=mean_if_whole("score"), num_data_sets=pl.len())


def parts_averaged(rows: pl.DataFrame, *, means: Sequence[str], sums: Sequence[str] = ()) -> pl.DataFrame:
    """The rows of data sets, those of the parts of one as one row under its name (`part_of`), without a `data_hash`.

    The columns `means` are then means over the parts, and `sums` sums, null where one part has none; what else the
    parts have must be the same.
    """
    key = [name for name in rows.columns if name not in (*means, *sums)]
    averaged = (
        as_wholes(rows)
        .group_by(key, maintain_order=True)
        .agg(*(mean_if_whole(name).alias(name) for name in means), *(_sum_if_whole(name).alias(name) for name in sums))
    )
    return averaged.select(rows.columns)


def as_wholes(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of data sets, parts under the name of their whole and without a hash of their own."""
    is_part = pl.col("part_of").is_not_null()
    return rows.with_columns(data_set=pl.coalesce("part_of", "data_set"), data_hash=pl.when(~is_part).then("data_hash"))


def mean_if_whole(column: str) -> pl.Expr:
    """The mean of a group, null (not a mean of the rest) where one value is null."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).mean())


def _sum_if_whole(column: str) -> pl.Expr:
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum())


def by_data_set(expected: pl.DataFrame) -> pl.DataFrame:
    """`expected` with each data set as a group of its own, once; one of several parts stays one.

    `group` is its name, with the split where it is expected with several.
    """
    whole = pl.coalesce("part_of", "data_set")
    label = pl.when(pl.col("split").n_unique().over(whole) > 1).then(pl.format("{} ({})", whole, "split"))
    key = ["trial_id", "data_set", "data_hash", "split", "tier", "measure", "score_similarity"]
    return expected.unique(key, keep="first", maintain_order=True).with_columns(group=pl.coalesce(label, whole))


def refuse_mixed_measures(expected: pl.DataFrame) -> None:
    """Raise where the data sets of a group have different main measures.

    Raises:
        MixedMeasuresError: naming the group and the measures.
    """
    measures = expected.group_by("group", maintain_order=True).agg(pl.col("measure").unique().sort())
    for group, names in measures.iter_rows():
        if len(names) > 1:
            raise MixedMeasuresError(
                f"group '{group}' has data sets with different main measures ({', '.join(names)}): there is no mean "
                f"over them; put them into separate groups"
            )
