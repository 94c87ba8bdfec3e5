"""Spearman correlations per cell, data set and similarity, both orders of the pairs, averaged over seeds."""

from collections.abc import Mapping

import polars as pl

from results.listing import in_order, ranked, with_untrained
from results.scores import as_wholes, mean_if_whole, parts_averaged
from results.selection import refuse_pooling, refuse_repeats, select_result, select_trials, training_names

CELL = ["task", "family", "layers", "init_regime", "group", "data_set", "split"]
ORDERS = ("forward", "swapped")
_SCORED = ["trial_id", "group", "data_set", "data_hash", "split", "score_similarity"]
_COLUMNS = (
    *("task", "training_data", "scale", "family", "layers", "init_regime", "group", "data_set", "split"),
    *("kind", "similarity", "score_similarity", *ORDERS, "untrained", "rank", "num_seeds", "num_scored_pairs"),
    *("trial_ids", "untrained_trial_ids"),
)


def sts_scores(
    correlations: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    where: Mapping[str, str] | None = None,
    pool: bool = False,
) -> pl.DataFrame:
    """Correlations per family, layers, init regime, data set, trained similarity and score similarity; -1 to 1.

    `forward` is that of s(a, b), `swapped` of s(b, a): they differ where the similarity is not symmetric. `untrained`
    is `forward` of the checkpoint that training started from, under the row's score similarity (a trained one with the
    fixed one it starts at). `rank` orders the forward correlations of a cell's own similarities, 1 is best. A group of
    several data sets also has rows without `data_set`: their unweighted means. A data set of several parts is one row,
    their unweighted mean. What is not there is null.

    `correlations` and `expected` are `Collected.correlations` and `Collected.expected_sts`; what a checkpoint was
    scored with beyond what is expected has rows too. `where` maps columns to values.

    Raises:
        SelectionError: the rows would pool training data or scales (unless `pool`), or two trials of one cell and
            seed; or the choice finds nothing.
    """
    where = where or {}
    chosen = select_trials(expected, where)
    refuse_repeats(chosen)
    trained = chosen.filter(pl.col("kind") == "train")
    if not pool:
        refuse_pooling(trained)
    single = parts_averaged(_with_found(_both_orders(correlations), chosen), means=ORDERS, sums=["num_scored_pairs"])
    seeds = (
        _with_means(single)
        .group_by([*CELL, "kind", "similarity", "score_similarity"], maintain_order=True)
        .agg(
            *(mean_if_whole(order).alias(order) for order in ORDERS),
            num_scored_pairs=pl.col("num_scored_pairs").first(),
            num_seeds=pl.col("seed").n_unique(),
            trial_ids=pl.col("trial_id").unique().sort().str.join(" "),
        )
    )
    after, before = seeds.filter(pl.col("kind") == "train"), seeds.filter(pl.col("kind") != "train")
    rows = ranked(
        with_untrained(after, before, CELL, {"forward": "untrained", "trial_ids": "untrained_trial_ids"}),
        CELL,
        "forward",
    )
    named = rows.with_columns(training_names(trained))
    return select_result(in_order(named, as_wholes(chosen), ["group", "data_set"]), where).select(_COLUMNS)


def _both_orders(correlations: pl.DataFrame) -> pl.DataFrame:
    """One row for each evaluation, with a column for each order."""
    orders = (pl.col("spearman").filter(pl.col("order") == order).first().alias(order) for order in ORDERS)
    return correlations.group_by(_SCORED, maintain_order=True).agg(*orders, pl.col("num_scored_pairs").first())


def _with_found(found: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """The expected evaluations and, of the same trials, whatever else was scored."""
    of_trial = chosen.drop("score_similarity").unique(maintain_order=True)
    others = found.join(chosen, on=_SCORED, how="anti").select(_SCORED)
    key = [name for name in _SCORED if name != "score_similarity"]
    more = of_trial.join(others, on=key, how="inner", maintain_order="left").select(chosen.columns)
    return pl.concat([chosen, more]).join(found, on=_SCORED, how="left", maintain_order="left")


def _with_means(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, and the means over the data sets of each group that has several."""
    of_data = ("data_set", "data_hash", "split", "part_of", "num_scored_pairs", *ORDERS)
    key = [name for name in rows.columns if name not in of_data]
    means = rows.group_by(key, maintain_order=True).agg(
        *(mean_if_whole(order).alias(order) for order in ORDERS),
        num_data_sets=pl.len(),
        num_scored_pairs=pl.col("num_scored_pairs").sum(),
    )
    several = means.filter(pl.col("num_data_sets") > 1).drop("num_data_sets")
    absent = {name: pl.lit(None, pl.String) for name in ("data_set", "data_hash", "split", "part_of")}
    return pl.concat([rows, several.with_columns(**absent).select(rows.columns).cast(rows.schema)])
