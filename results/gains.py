"""Gains: how much better each similarity's trials score than the baseline's, per family, init regime and group.

A group's score is the unweighted mean over its data sets of the mean over queries, averaged over seeds; a data set of
several parts is their unweighted mean, and counts once.
"""

from collections.abc import Iterable, Mapping

import polars as pl

from results.scores import ROWS_MISSING, group_means, mean_if_whole
from results.selection import (
    NothingChosenError,
    SelectionError,
    data_names,
    refuse_pooled_data,
    refuse_repeats,
    scale_text,
    select_result,
    select_trials,
)
from results.softmax import SOFTMAX_COLUMNS
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.problems import unknown_name

_MODEL = ["task", "family", "layers", "init_regime"]
_SCALE = ["scale_mode", "scale_value"]
CELL = [*_MODEL, *_SCALE, "group", "measure"]
_REPLICATE = ["training_data_hash", "seed"]
BASELINE_MISSING = "the baseline's rows are missing"
UNTRAINED_MISSING = "the untrained checkpoint's rows are missing"
DERIVED_REASONS = (ROWS_MISSING, BASELINE_MISSING, UNTRAINED_MISSING)  # they follow from what collect lists as missing
_COLUMNS = (
    *("task", "training_data", "family", "layers", "init_regime", "scale", "group", "measure", "kind", "similarity"),
    *("score", "baseline_score", "gain", "gain_ratio", "untrained_score"),
    *SOFTMAX_COLUMNS,
    *("rank", "num_seeds", "num_data_sets", "trial_ids", "baseline_trial_ids", "untrained_trial_ids", "reason"),
)


def gains(
    scores: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    baseline: str = "cosine",
    where: Mapping[str, str] | None = None,
    pool: bool = False,
) -> pl.DataFrame:
    """Scores and gains per family, layers, init regime, scale, group and similarity; measures are 0 to 1.

    - `gain` = score - the baseline's score at the same scale.
    - `gain_ratio` = gain / baseline's score: the study's headline formula `ratio_of_means` (arXiv 2602.09229), the
      relative change of the group's average, not the average of the data sets' relative changes.
    - `untrained_score`: the checkpoint that training started from, scored with the row's own similarity (a trained
      one with the fixed one it starts at).
    - SOFTMAX_COLUMNS: how sharp the training's softmax was, averaged over seeds; none where the task has no softmax.

    Rows of kind 'untrained' are those starting checkpoints, one row for each similarity they were scored with; they
    stand beside the trials of every scale.
    `rank` orders a cell's trained similarities (1 is best). What cannot be computed is null, and `reason` says why.

    `scores` and `expected` are `data_set_scores` and `expected` of `results.collect.Collected`. `where` maps columns to
    values; a choice of similarity or kind picks rows of the result. `trial_ids` are those averaged.

    Raises:
        SelectionError: the rows would pool training data (unless `pool`), or are of two evaluation tiers, or two trials
            of one cell and seed; the choice finds nothing; no trial is trained with `baseline`.
    """
    where = where or {}
    chosen = select_trials(expected, where)
    trained = chosen.filter(pl.col("kind") == "train")
    _check_baseline(baseline, trained)
    refuse_repeats(chosen)
    if not pool:
        refuse_pooled_data(trained)
    cells = _with_gains(_cell_scores(group_means(scores, _at_each_scale(chosen))), baseline)
    data = pl.when(pl.col("kind") == "train").then(data_names(trained))
    named = cells.with_columns(training_data=data, scale=scale_text())
    return select_result(_in_order(named, chosen), where).select(_COLUMNS)


def start_similarity(name: str) -> str:
    """The fixed similarity that training with `name` starts from: itself, or for 'learnable' the one of its gammas."""
    if name not in SIMILARITIES or not SIMILARITIES[name].trained:
        return name
    start = SIMILARITIES[name]
    same = [s for s in SIMILARITIES.values() if (s.gamma_q, s.gamma_d) == (start.gamma_q, start.gamma_d)]
    return next((similarity.name for similarity in same if not similarity.trained), name)


def _check_baseline(baseline: str, trained: pl.DataFrame) -> None:
    known = trained["similarity"].unique().sort().to_list()
    if not known:
        raise NothingChosenError(
            "no trial to compute gains of: the sweep has not started, or trains none of those chosen"
        )
    if baseline not in known:
        raise SelectionError(f"baseline: {unknown_name('trained similarity of these rows', baseline, known)}")


def _at_each_scale(expected: pl.DataFrame) -> pl.DataFrame:
    """The rows, those of an untrained checkpoint once for each scale that its model is trained at."""
    is_trained = pl.col("kind") == "train"
    trained = expected.filter(is_trained)
    scales = trained.select(*_MODEL, *_SCALE).unique(maintain_order=True)
    untrained = expected.filter(~is_trained).drop(_SCALE)
    beside = untrained.join(scales, on=_MODEL, how="left", nulls_equal=True, maintain_order="left")
    return pl.concat([trained, beside.select(trained.columns)])


def _cell_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Average over seeds. `replicates` names what was averaged, so that only like is compared with like."""
    replicate = pl.concat_str(_REPLICATE, separator=" ", ignore_nulls=True)
    return (
        scores.with_columns(similarity=pl.col("score_similarity"), replicate=replicate)
        .group_by([*CELL, "kind", "similarity"], maintain_order=True)
        .agg(
            *(mean_if_whole(name).alias(name) for name in ("score", *SOFTMAX_COLUMNS)),
            num_seeds=pl.col("seed").n_unique(),
            num_data_sets=pl.col("num_data_sets").first(),
            replicates=pl.col("replicate").sort().str.join("; "),
            trial_ids=pl.col("trial_id").sort_by("replicate").str.join(" "),
        )
    )


def _with_gains(cells: pl.DataFrame, baseline: str) -> pl.DataFrame:
    is_trained = pl.col("kind") == "train"
    against = cells.filter(is_trained & (pl.col("similarity") == baseline)).select(
        *CELL, baseline_score="score", baseline_replicates="replicates", baseline_trial_ids="trial_ids"
    )
    untrained = cells.filter(~is_trained).select(
        *CELL, start="similarity", untrained_score="score", has_untrained=True, untrained_trial_ids="trial_ids"
    )
    starts = {name: start_similarity(name) for name in cells["similarity"].unique()}
    joined = (
        cells.with_columns(start=pl.col("similarity").replace_strict(starts))
        .join(against, on=CELL, how="left", nulls_equal=True, maintain_order="left")
        .join(untrained, on=[*CELL, "start"], how="left", nulls_equal=True, maintain_order="left")
    )
    like = ~is_trained | (pl.col("replicates") == pl.col("baseline_replicates"))
    gain = pl.when(like).then(pl.col("score") - pl.col("baseline_score"))
    return joined.with_columns(
        gain=gain,
        gain_ratio=pl.when(pl.col("baseline_score") > 0).then(gain / pl.col("baseline_score")),
        # Rounded, since a sum in another order must not break a tie.
        rank=pl.when(is_trained).then(pl.col("score").round(12)).rank("dense", descending=True).over(CELL),
        reason=_reason(like, baseline),
    )


def _reason(like: pl.Expr, baseline: str) -> pl.Expr:
    """Why a row has an empty number; null where it has none."""
    return (
        pl.when(pl.col("score").is_null())
        .then(pl.lit(ROWS_MISSING))
        .when(pl.col("baseline_replicates").is_null())
        .then(pl.lit(f"the sweep trains no {baseline} here"))
        .when(pl.col("baseline_score").is_null())
        .then(pl.lit(BASELINE_MISSING))
        .when(~like)
        .then(pl.lit("its seeds are not those of the baseline"))
        .when(pl.col("baseline_score") == 0)
        .then(pl.lit("the baseline scores 0, so there is no relative gain"))
        .when(pl.col("has_untrained").is_null())
        .then(pl.lit("the sweep has no untrained checkpoint here"))
        .when(pl.col("untrained_score").is_null())
        .then(pl.lit(UNTRAINED_MISSING))
    )


def _in_order(cells: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Families and groups as the sweep lists them, regimes and similarities as the catalogue does, untrained first."""
    return cells.sort(
        *("task", place("family", chosen["family"].unique(maintain_order=True)), "layers"),
        place("init_regime", INIT_REGIMES),
        *_SCALE,
        place("group", chosen["group"].unique(maintain_order=True)),
        place("kind", ("untrained", "train")),
        place("similarity", SIMILARITIES),
        maintain_order=True,
    )


def place(column: str, order: Iterable[str]) -> pl.Expr:
    """Where a column's value stands in `order`; after all of them where it does not."""
    places = {name: index for index, name in enumerate(order)}
    return pl.col(column).replace_strict(places, default=len(places), return_dtype=pl.Int64)
