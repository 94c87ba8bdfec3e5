"""How scored pairs agree with their raters: Spearman's rank correlation, -1 to 1, from the rows of the schema STS."""

import polars as pl

_KEY = ("checkpoint_hash", "data_set", "data_hash", "split", "score_similarity", "order")


def spearman(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each checkpoint, data set, score similarity and order of `rows`: `spearman` and `num_scored_pairs`.

    Spearman's rho is Pearson's correlation of ranks, where equal values share the mean of their ranks. It is null
    where it is not defined: a score that is not finite, all scores or all ratings equal, a single pair.
    """
    ranks = (pl.col(name).rank("average") for name in ("score", "gold"))
    is_finite = pl.col("score").is_finite().all() & pl.col("gold").is_finite().all()
    correlation = pl.when(is_finite & (pl.len() > 1)).then(pl.corr(*ranks))
    return rows.group_by(_KEY, maintain_order=True).agg(
        spearman=correlation.fill_nan(None),
        num_scored_pairs=pl.len(),
    )
