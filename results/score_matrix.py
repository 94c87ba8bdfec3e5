"""Train similarity x score similarity: what a checkpoint scores under each similarity that it was ranked with."""

from collections.abc import Mapping

import polars as pl

from results.gains import place
from results.scores import group_means, mean_if_whole
from results.selection import data_names, refuse_pooled_data, refuse_repeats, scale_text, select_result, select_trials
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES

CELL = ["task", "scale", "family", "layers", "init_regime", "group", "measure"]


def score_matrix(
    data_set_scores: pl.DataFrame, expected: pl.DataFrame, *, where: Mapping[str, str] | None = None, pool: bool = False
) -> pl.DataFrame:
    """One row per family, layers, init regime, scale, group and trained similarity, and one untrained; 0 to 1.

    `score_NAME` is the group's score under the score similarity NAME, averaged over seeds, null where the sweep did not
    score with it; there is a column for each that it scored with. The untrained row stands beside those of every scale.
    `num_seeds` are those of the row. A trained row's own similarity is where NAME is `similarity`.

    `data_set_scores` and `expected` are those of `results.collect.Collected`; what was scored beyond what is
    expected counts.

    Raises:
        SelectionError: the rows would pool training data (unless `pool`), or two trials of one cell and seed; the
            choice finds nothing.
        MixedMeasuresError: a group whose data sets have different main measures.
    """
    chosen = select_trials(expected, where or {})
    refuse_repeats(chosen)
    trained = chosen.filter(pl.col("kind") == "train")
    if not pool:
        refuse_pooled_data(trained)
    scores = group_means(data_set_scores, _with_found(data_set_scores, chosen)).with_columns(scale=scale_text())
    long = scores.group_by([*CELL, "kind", "similarity", "score_similarity"], maintain_order=True).agg(
        score=mean_if_whole("score"), num_seeds=pl.col("seed").n_unique(), trial_ids=pl.col("trial_id").str.join("; ")
    )
    wide = _wide(long)
    data = data_names(trained)
    named = wide.with_columns(training_data=pl.when(pl.col("kind") == "train").then(data))
    ordered = named.sort(
        "task",
        place("family", chosen["family"].unique(maintain_order=True)),
        "layers",
        place("init_regime", INIT_REGIMES),
        place("group", chosen["group"].unique(maintain_order=True)),
        pl.col("scale").fill_null(""),
        place("similarity", ("", *SIMILARITIES)),
        maintain_order=True,
    )
    return select_result(ordered, where or {})


def score_columns(rows: pl.DataFrame) -> list[str]:
    """The score similarities that `score_matrix` has columns of, in the catalogue's order."""
    return [name for name in SIMILARITIES if f"score_{name}" in rows.columns]


def _with_found(scores: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """What is expected and, of the same trials, every other score similarity that one of their data sets has."""
    key = ["trial_id", "score_similarity"]
    found = scores.select(key).unique(maintain_order=True).join(chosen.select(key).unique(), on=key, how="anti")
    of_trial = chosen.drop("score_similarity").unique(maintain_order=True)
    more = of_trial.join(found, on="trial_id", how="inner", maintain_order="left").select(chosen.columns)
    return pl.concat([chosen, more])


def _wide(long: pl.DataFrame) -> pl.DataFrame:
    names = [name for name in SIMILARITIES if name in set(long["score_similarity"])]
    of = pl.col("score_similarity")
    scores = [pl.col("score").filter(of == name).first().alias(f"score_{name}") for name in names]
    return long.group_by([*CELL, "kind", "similarity"], maintain_order=True).agg(
        *scores,
        num_seeds=pl.col("num_seeds").max(),
        trial_ids=pl.col("trial_ids").first(),
    )
