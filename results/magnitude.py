"""Whether relevant documents are longer: Cohen's d of document norms per data set and similarity; query norms."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import polars as pl

from results.collect import Encoding
from results.listing import in_order
from results.scores import as_wholes, mean_if_whole, parts_averaged
from results.selection import refuse_repeats, scale_text, select_result, select_trials
from results.statistics.effect_sizes import Sample, coefficient_of_variation, cohen_d, sample_of

Irrelevant = Literal["judged 0", "unjudged"]
AGAINST: Irrelevant = "unjudged"
"""The kind of irrelevant documents that nearly every data set has: what is compared over data sets is against it."""
"""Which documents stand against the relevant ones: judged 0 or less and relevant to no query, or judged for none."""

NOT_DEFINED = "fewer than two documents on one side, or all norms equal"
NORMS_MISSING = "its norms or judgements are missing"
CELL = ["task", "training_data", "scale", "family", "layers", "init_regime", "data_set", "split", "kind", "similarity"]
_DATA = ["data_set", "data_hash", "split"]
_MEANS = ["cohen_d", "relevant_norm", "irrelevant_norm", "query_cv"]
_SUMS = ["num_relevant", "num_irrelevant", "num_queries"]
_TYPES: dict[str, Any] = {
    **dict.fromkeys(["trial_id", *_DATA, "irrelevant"], pl.String),
    **dict.fromkeys(_MEANS, pl.Float64),
    **dict.fromkeys(_SUMS, pl.Int64),
}


def norm_statistics(encodings: Iterable[Encoding], thresholds: Mapping[tuple[str, str, str], int]) -> pl.DataFrame:
    """One row per trial, data set and kind of irrelevant documents.

    A document is relevant where some query's grade of it reaches the data set's threshold; one whose best grade lies
    between 0 and the threshold is on neither side. `cohen_d` is in pooled standard deviations of document norms, one
    observation a document.

    Args:
        encodings: `Collected.encodings()`.
        thresholds: the grade that counts as relevant, by data set, content hash and split; others are left out.
    """
    rows = []
    for encoding in encodings:
        data = encoding.data
        key = (data.name, str(data.content_hash), data.split)
        if key in thresholds:
            names = dict(zip(_DATA, key, strict=True))
            rows += [{"trial_id": encoding.trial_id, **names, **row} for row in _rows(encoding, thresholds[key])]
    return pl.DataFrame(rows, schema=_TYPES)


def cohen_ds(
    statistics: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    where: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """`norm_statistics` per training data set, scale, family, layers, init regime, data set and similarity.

    Seeds are averaged; `cohen_d_min` and `cohen_d_max` are those of single ones. A data set of several parts is their
    unweighted mean. Untrained checkpoints (kind 'untrained') have no similarity. A data set none of whose documents is
    judged 0 has no row of that kind. What is not there is null, with `reason`.

    `expected` is `Collected.expected`.

    Raises:
        SelectionError: two trials of one cell and seed, or the choice finds nothing.
    """
    chosen = select_trials(expected, where or {})
    refuse_repeats(chosen)
    asked = _asked(chosen).join(_kinds(statistics), how="cross")
    found = asked.join(statistics, on=["trial_id", *_DATA, "irrelevant"], how="left", maintain_order="left")
    exists = statistics.select("trial_id", *_DATA).unique().with_columns(has_norms=pl.lit(value=True))
    known = found.join(exists, on=["trial_id", *_DATA], how="left", maintain_order="left")
    # What has norms and no document of this kind is no row; what has no norms is one with a reason.
    rows = known.filter(pl.col("has_norms").is_null() | pl.col("num_irrelevant").is_not_null())
    wholes = parts_averaged(rows.with_columns(pl.col("has_norms").fill_null(value=False)), means=_MEANS, sums=_SUMS)
    cells = _over_seeds(wholes)
    reason = (
        pl.when(~pl.col("has_norms"))
        .then(pl.lit(NORMS_MISSING))
        .when(pl.col("cohen_d").is_null())
        .then(pl.lit(NOT_DEFINED))
    )
    named = cells.with_columns(score_similarity="similarity", reason=reason)
    ordered = in_order(named, as_wholes(chosen), ["data_set"])
    return select_result(ordered, where or {}).select(
        *CELL,
        *("irrelevant", "cohen_d", "cohen_d_min", "cohen_d_max", "relevant_norm", "irrelevant_norm", "query_cv"),
        *(*_SUMS, "num_seeds", "reason", "trial_ids"),
    )


def _rows(encoding: Encoding, threshold: int) -> Iterable[dict[str, Any]]:
    queries = encoding.norms.filter(pl.col("side") == "query")["norm"]
    documents = encoding.norms.filter(pl.col("side") == "document").select("text_id", "norm")
    best = encoding.judgements.group_by("document_id").agg(grade=pl.col("relevance").max())
    graded = documents.join(best, left_on="text_id", right_on="document_id", how="left")
    grade = pl.col("grade")
    sides = {"judged 0": grade <= 0, AGAINST: grade.is_null()}
    relevant = _sample(graded.filter(grade >= threshold)["norm"])
    cv = coefficient_of_variation(_sample(queries))
    for kind in get_args(Irrelevant):
        irrelevant = _sample(graded.filter(sides[kind])["norm"])
        if irrelevant.num:
            yield {
                "irrelevant": kind,
                "cohen_d": cohen_d(relevant, irrelevant).value,
                "relevant_norm": relevant.mean if relevant.num else None,
                "irrelevant_norm": irrelevant.mean,
                "query_cv": cv,
                "num_relevant": relevant.num,
                "num_irrelevant": irrelevant.num,
                "num_queries": len(queries),
            }


def _sample(values: pl.Series) -> Sample:
    return sample_of(values.to_numpy())


def _asked(chosen: pl.DataFrame) -> pl.DataFrame:
    """Each trial on each data set once: norms do not depend on the similarity of the search, or on groups."""
    is_trained = pl.col("kind") == "train"
    once = chosen.unique(["trial_id", *_DATA], keep="first", maintain_order=True)
    columns = ("trial_id", "task", "training_data", "family", "layers", "init_regime", "kind", "similarity", "seed")
    return once.with_columns(scale=pl.when(is_trained).then(scale_text())).select(*columns, "scale", *_DATA, "part_of")


def _kinds(statistics: pl.DataFrame) -> pl.DataFrame:
    """The kinds that some data set has; one where nothing was found, so that what lacks is a row."""
    found = set(statistics["irrelevant"])
    kinds = [kind for kind in get_args(Irrelevant) if kind in found] or [AGAINST]
    return pl.DataFrame({"irrelevant": kinds})


def _over_seeds(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by([*CELL, "irrelevant"], maintain_order=True).agg(
        *(mean_if_whole(name).alias(name) for name in _MEANS),
        cohen_d_min=pl.col("cohen_d").min(),
        cohen_d_max=pl.col("cohen_d").max(),
        **{name: pl.col(name).first() for name in _SUMS},
        num_seeds=pl.col("seed").n_unique(),
        has_norms=pl.col("has_norms").all(),
        trial_ids=pl.col("trial_id").str.join("; "),
    )
