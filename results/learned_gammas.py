"""What became of trained gammas: start, end and range over the steps of each training, from its history rows."""

from collections.abc import Callable, Mapping

import polars as pl

from results.gains import place
from results.selection import scale_text, select_trials
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import TrialSpec, from_json

SIDES = ("gamma_q", "gamma_d")


def learned_gammas(
    history: pl.DataFrame, trials: pl.DataFrame, expected: pl.DataFrame, *, where: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """One row per training whose gammas are trained, by seed and, where they vary, hyperparameters.

    Of each of `gamma_q` and `gamma_d`: `_start`, before the first step; `_half`, at half the steps; `_end`, after the
    last (where the best step was kept instead, that with which the last step was made); `_min` and `_max` over all of
    them; `_checkpoint`, of the checkpoint that is evaluated. `gamma_difference_end` is q's end minus d's: 0 is a
    symmetric similarity. What has no history is null.

    Args:
        history: `Collected.history()`.
        trials: `Collected.trials`.
        expected: `Collected.expected` and `expected_sts`, of which each trial is taken once.
        where: column to value.
    """
    trained_names = [similarity.name for similarity in SIMILARITIES.values() if similarity.trained]
    once = expected.unique("trial_id", keep="first", maintain_order=True)
    chosen = select_trials(once, where or {}).filter(
        (pl.col("kind") == "train") & pl.col("similarity").is_in(trained_names)
    )
    return (
        _ranged(chosen.with_columns(scale=scale_text()), history, trials)
        .sort(
            place("family", chosen["family"].unique(maintain_order=True)),
            "layers",
            place("init_regime", INIT_REGIMES),
            *("training_data", "scale_mode", "scale_value", "seed"),
            maintain_order=True,
        )
        .select(
            *("task", "training_data", "scale", "family", "layers", "init_regime", "similarity", "seed"),
            *(f"{side}_{what}" for side in SIDES for what in ("start", "half", "end", "min", "max", "checkpoint")),
            *("gamma_difference_end", "last_step", "best_step", "learning_rate", "trial_id", "title"),
        )
    )


def _ranged(chosen: pl.DataFrame, history: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """The chosen trials with where their gammas started, went and ended."""
    of_checkpoint = (pl.col(side).alias(f"{side}_checkpoint") for side in SIDES)
    rows = chosen
    for found in (trials.select("trial_id", *of_checkpoint, "best_step"), _starts(trials), _over_steps(history)):
        rows = rows.join(found, on="trial_id", how="left", maintain_order="left")
    # A history row has the gammas before its update, so that the last one is in the checkpoint alone.
    is_last = pl.col("best_step").is_null() & pl.col("last_step").is_not_null()
    ended = rows.with_columns(
        pl.when(is_last).then(f"{side}_checkpoint").otherwise(f"{side}_last").alias(f"{side}_end") for side in SIDES
    )
    return ended.with_columns(
        *(_over(side, "min", pl.min_horizontal) for side in SIDES),
        *(_over(side, "max", pl.max_horizontal) for side in SIDES),
        gamma_difference_end=pl.col("gamma_q_end") - pl.col("gamma_d_end"),
    )


def _over(side: str, name: str, extreme: Callable[..., pl.Expr]) -> pl.Expr:
    """The extreme of start, history and end; null where there is no history."""
    known = extreme(f"{side}_{name}", f"{side}_start", f"{side}_end")
    return pl.when(pl.col("last_step").is_not_null()).then(known).alias(f"{side}_{name}")


def _starts(trials: pl.DataFrame) -> pl.DataFrame:
    specs = trials.select("trial_id", "spec_json").rows()
    rows = [(trial, from_json(TrialSpec, text).similarity) for trial, text in specs]
    starts = [(trial, found.gamma_q, found.gamma_d) for trial, found in rows if found is not None]
    names = {"trial_id": pl.String, **{f"{side}_start": pl.Float64 for side in SIDES}}
    return pl.DataFrame(starts, schema=names, orient="row")


def _over_steps(history: pl.DataFrame) -> pl.DataFrame:
    rising = history.sort("trial_id", "step")
    half = pl.col("step") * 2 >= pl.col("step").max()
    return rising.group_by("trial_id", maintain_order=True).agg(
        *(pl.col(side).filter(half).first().alias(f"{side}_half") for side in SIDES),
        *(pl.col(side).last().alias(f"{side}_last") for side in SIDES),
        *(pl.col(side).min().alias(f"{side}_min") for side in SIDES),
        *(pl.col(side).max().alias(f"{side}_max") for side in SIDES),
        last_step=pl.col("step").max(),
    )
