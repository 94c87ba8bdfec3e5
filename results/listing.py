"""What tables of scores under several similarities have in common: order, rank, and the untrained score beside."""

from collections.abc import Mapping, Sequence

import polars as pl

from results.gains import place, start_similarity
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES


def with_untrained(
    trained: pl.DataFrame, untrained: pl.DataFrame, cell: Sequence[str], names: Mapping[str, str]
) -> pl.DataFrame:
    """Trained rows with the scores of their cell's untrained checkpoint under the similarity that training starts from.

    `names` maps the untrained rows' columns to what they are called beside the trained ones.
    """
    renamed = [pl.col(column).alias(name) for column, name in names.items()]
    before = untrained.select(*cell, *renamed, start="score_similarity")
    starts = {name: start_similarity(name) for name in trained["score_similarity"].unique()}
    rows = trained.with_columns(start=pl.col("score_similarity").replace_strict(starts, return_dtype=pl.String))
    return rows.join(before, on=[*cell, "start"], how="left", nulls_equal=True, maintain_order="left")


def ranked(rows: pl.DataFrame, cell: Sequence[str], score: str) -> pl.DataFrame:
    """With `rank` in the cell, 1 the highest score, of those scored as they were trained."""
    own = pl.when(pl.col("similarity") == pl.col("score_similarity")).then(pl.col(score).round(12))
    return rows.with_columns(rank=own.rank("dense", descending=True).over(cell))


def in_order(rows: pl.DataFrame, chosen: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Families and what `columns` name as the sweep lists them, regimes and similarities as the catalogue does."""
    return rows.sort(
        *("task", place("family", chosen["family"].unique(maintain_order=True)), "layers"),
        place("init_regime", INIT_REGIMES),
        *(place(column, chosen[column].unique(maintain_order=True)) for column in columns),
        place("similarity", SIMILARITIES),
        place("score_similarity", SIMILARITIES),
        maintain_order=True,
    )
