"""How good a reader's answers are per cell, data set and similarity: exact match and F1, averaged over seeds."""

from collections.abc import Mapping

import polars as pl

from results.listing import in_order, ranked, with_untrained
from results.scores import as_wholes, mean_if_whole, parts_averaged
from results.selection import (
    refuse_mixed_tiers,
    refuse_pooling,
    refuse_repeats,
    select_result,
    select_trials,
    training_names,
)

CELL = ["task", "family", "layers", "init_regime", "data_set", "split"]
SCORES = ("exact_match", "f1")
_SCORED = ["trial_id", "data_set", "data_hash", "split", "score_similarity", "reader", "num_passages"]


def rag_scores(
    answers: pl.DataFrame, expected: pl.DataFrame, *, where: Mapping[str, str] | None = None, pool: bool = False
) -> pl.DataFrame:
    """Scores per family, layers, init regime, data set, trained similarity and score similarity; 0 to 1.

    `exact_match` and `f1` are means over questions, then over seeds. `untrained_exact_match` and `untrained_f1` are
    those of the checkpoint that training started from, under the row's score similarity (a trained one with the fixed
    one it starts at). `rank` orders the F1 of a cell's own similarities, 1 is best. `cut_share` is the share of the
    passages that were shortened. A data set of several parts is one row, their unweighted mean. What is not there is
    null.

    `answers` and `expected` are `Collected.answers` and `Collected.expected_answers`; what a checkpoint was scored with
    beyond what is expected has rows too. `where` maps columns to values.

    Raises:
        SelectionError: the rows would pool training data or scales (unless `pool`), or are of two evaluation tiers, or
            two trials of one cell and seed; or the choice finds nothing.
    """
    where = where or {}
    chosen = select_trials(expected, where)
    refuse_repeats(chosen)
    refuse_mixed_tiers(chosen)
    trained = chosen.filter(pl.col("kind") == "train")
    if not pool:
        refuse_pooling(trained)
    found = _with_found(_over_questions(answers), chosen)
    seeds = _over_seeds(parts_averaged(found, means=[*SCORES, "cut_share"], sums=["num_questions"]))
    after, before = seeds.filter(pl.col("kind") == "train"), seeds.filter(pl.col("kind") != "train")
    rows = ranked(
        with_untrained(after, before, CELL, {name: f"untrained_{name}" for name in (*SCORES, "trial_ids")}), CELL, "f1"
    )
    named = rows.with_columns(training_names(trained))
    return select_result(in_order(named, as_wholes(chosen), ["data_set"]), where).select(
        *("task", "training_data", "scale", "family", "layers", "init_regime", "data_set", "split", "kind"),
        *("similarity", "score_similarity", *SCORES, *(f"untrained_{name}" for name in SCORES), "rank", "num_seeds"),
        *("num_questions", "cut_share", "reader", "num_passages", "trial_ids", "untrained_trial_ids"),
    )


def _over_questions(answers: pl.DataFrame) -> pl.DataFrame:
    """One row for each trial, data set and score similarity."""
    passages = pl.col("document_ids").list.len()
    return answers.group_by(_SCORED, maintain_order=True).agg(
        *(pl.col(name).mean() for name in SCORES),
        num_questions=pl.len(),
        cut_share=pl.col("num_cut").sum() / passages.sum(),
    )


def _with_found(found: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """What is expected and, of the same trials, whatever else was answered."""
    of_trial = chosen.drop("score_similarity").unique(maintain_order=True)
    others = found.join(chosen, on=_SCORED, how="anti").select(_SCORED)
    key = [name for name in _SCORED if name != "score_similarity"]
    more = of_trial.join(others, on=key, how="inner", maintain_order="left").select(chosen.columns)
    return pl.concat([chosen, more]).join(found, on=_SCORED, how="left", maintain_order="left")


def _over_seeds(rows: pl.DataFrame) -> pl.DataFrame:
    key = [*CELL, "kind", "similarity", "score_similarity", "reader", "num_passages"]
    return rows.group_by(key, maintain_order=True).agg(
        *(mean_if_whole(name).alias(name) for name in SCORES),
        num_questions=pl.col("num_questions").max(),
        cut_share=pl.col("cut_share").mean(),
        num_seeds=pl.col("seed").n_unique(),
        trial_ids=pl.col("trial_id").unique().sort().str.join(" "),
    )
