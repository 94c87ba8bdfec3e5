"""Whether a similarity gains where relevant documents are longer: Cohen's d against the gain, over data sets."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import polars as pl

from results.magnitude import AGAINST, cohen_ds
from results.scores import mean_if_whole, parts_averaged
from results.selection import SelectionError, scale_text, select_trials
from results.statistics.coefficients import Coefficient
from results.statistics.corrections import Correction, adjust
from results.statistics.correlation import Outliers, Scope, correlate
from search_spaces.problems import unknown_name

SIMILARITY = "qnorm"  # the study's
COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman")
MODEL = ["task", "training_data", "scale", "family", "layers", "init_regime", "measure"]
_KEY = ["trial_id", "data_set", "data_hash", "split", "measure", "score_similarity"]
_TYPES: dict[str, Any] = {
    **dict.fromkeys(["similarity", "baseline", "coefficient", "scope", "outliers"], pl.String),
    **dict.fromkeys(["n", "num_left_out"], pl.Int64),
    **dict.fromkeys(["value", "low", "high", "p", "adjusted_p", "left_out_low", "left_out_high"], pl.Float64),
    **dict.fromkeys(["most_influential", "data_sets", "reason", "trial_ids", "baseline_trial_ids"], pl.String),
}


def magnitude_correlations(
    statistics: pl.DataFrame,
    data_set_scores: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    baseline: str = "cosine",
    where: Mapping[str, str] | None = None,
    correction: Correction = "holm",
) -> pl.DataFrame:
    """Pearson's and Spearman's correlation per training data set, family, layers, init regime, scale and measure.

    A point is a data set: Cohen's d (relevant against unjudged documents) of the models trained with the similarity,
    qnorm unless `where` names another, and their gain over `baseline`, in points of the measure; seeds averaged. Rows
    differ in coefficient, scope ('over all' data sets, 'within groups') and whether outliers are in, by the rule of
    `results.statistics.correlation`; `adjusted_p` goes through `correction` over all of them. A data set in two
    groups counts in the first that the sweep lists.

    Raises:
        SelectionError: as `results.magnitude.cohen_ds`, or no trial is trained with the similarity or the baseline.
    """
    where = dict(where or {})
    similarity = where.pop("similarity", SIMILARITY)
    points = magnitude_points(
        statistics, data_set_scores, expected, similarity=similarity, baseline=baseline, where=where
    )
    rows = [
        dict(zip(MODEL, key, strict=True)) | {"similarity": similarity, "baseline": baseline} | row | _trials(cell)
        for key, cell in points.group_by(MODEL, maintain_order=True)
        for row in _correlations(cell)
    ]
    for row, adjusted_p in zip(rows, adjust([row["p"] for row in rows], correction), strict=True):
        row["adjusted_p"] = adjusted_p
    return pl.DataFrame(rows, schema={**{name: points.schema[name] for name in MODEL}, **_TYPES})


def magnitude_points(
    statistics: pl.DataFrame,
    data_set_scores: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    similarity: str = SIMILARITY,
    baseline: str = "cosine",
    where: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """The points: one row per model, measure and data set, with `group`, `cohen_d` and `gain`, null where one lacks."""
    distances = cohen_ds(statistics, expected, where=where)
    trained = select_trials(expected, where or {}).filter(pl.col("kind") == "train")
    for name in (similarity, baseline):
        known = trained["similarity"].unique().sort().to_list()
        if name not in known:
            raise SelectionError(f"magnitude: {unknown_name('trained similarity of these rows', name, known)}")
    on = [*(name for name in MODEL if name != "measure"), "data_set", "split"]
    of_similarity = (pl.col("kind") == "train") & (pl.col("similarity") == similarity)
    chosen = distances.filter(of_similarity & (pl.col("irrelevant") == AGAINST)).select(*on, "cohen_d")
    gains = _gains(data_set_scores, trained, similarity, baseline)
    return gains.join(chosen, on=on, how="left", nulls_equal=True, maintain_order="left")


def _gains(data_set_scores: pl.DataFrame, trained: pl.DataFrame, similarity: str, baseline: str) -> pl.DataFrame:
    """The gain on each data set, null where rows lack or the seeds of the two differ."""
    asked = trained.filter(pl.col("similarity").is_in([similarity, baseline]))
    once = asked.unique(_KEY, keep="first", maintain_order=True).with_columns(scale=scale_text())
    columns = ("trial_id", *MODEL, "similarity", "seed", "group", "data_set", "data_hash", "split", "part_of")
    scores = data_set_scores.unique(_KEY, keep="first").select(*_KEY, "score")
    found = once.select(*columns, "score_similarity").join(scores, on=_KEY, how="left", maintain_order="left")
    cell = [*MODEL, "group", "data_set", "split"]
    sides = (
        parts_averaged(found, means=["score"])
        .group_by([*cell, "similarity"], maintain_order=True)
        .agg(
            score=mean_if_whole("score"),
            seeds=pl.col("seed").sort(),
            trials=pl.col("trial_id").unique().sort().str.join(" "),
        )
    )
    first, second = (
        sides.filter(pl.col("similarity") == name)
        .drop("similarity")
        .rename({"score": s, "seeds": f"{s}_seeds", "trials": f"{s}_trials"})
        for name, s in ((similarity, "first"), (baseline, "second"))
    )
    both = first.join(second, on=cell, how="left", nulls_equal=True, maintain_order="left")
    is_paired = pl.col("first_seeds") == pl.col("second_seeds")
    return both.with_columns(gain=pl.when(is_paired).then(pl.col("first") - pl.col("second"))).select(
        *cell, "gain", trial_ids="first_trials", baseline_trial_ids="second_trials"
    )


def _correlations(cell: pl.DataFrame) -> Iterator[dict[str, Any]]:
    points = cell.filter(pl.col("cohen_d").is_finite() & pl.col("gain").is_finite())
    x_N, y_N, groups = points["cohen_d"].to_numpy(), points["gain"].to_numpy(), points["group"].to_list()
    for scope in get_args(Scope):
        for outliers in get_args(Outliers):
            for name in COEFFICIENTS:
                if not len(groups):
                    yield _row(name, scope, outliers) | {"n": 0, "reason": "no data set has both d and gain"}
                    continue
                found = correlate(x_N, y_N, groups, name, scope=scope, outliers=outliers)
                most = found.most_influential
                yield _row(name, scope, outliers) | {
                    "n": found.n,
                    "num_left_out": found.num_left_out,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                    "p": found.p,
                    "left_out_low": found.left_out_low,
                    "left_out_high": found.left_out_high,
                    "most_influential": None if most is None else points["data_set"][most],
                    "data_sets": ", ".join(points["data_set"]),
                    "reason": found.reason,
                }


def _row(name: Coefficient, scope: Scope, outliers: Outliers) -> dict[str, Any]:
    return {"coefficient": name, "scope": scope, "outliers": outliers, "p": None}


def _trials(cell: pl.DataFrame) -> dict[str, str]:
    """The trials behind any of the points."""
    names = ("trial_ids", "baseline_trial_ids")
    return {n: " ".join(dict.fromkeys(" ".join(cell[n].drop_nulls()).split())) for n in names}
