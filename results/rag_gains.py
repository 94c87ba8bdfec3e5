"""Gains of a reader's answers over a baseline similarity, with paired tests: McNemar for exact match, t for F1."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from results.listing import in_order
from results.scores import as_wholes
from results.selection import (
    SelectionError,
    refuse_pooling,
    refuse_repeats,
    select_result,
    select_trials,
    training_names,
)
from results.statistics.binary_outcomes import mcnemar
from results.statistics.corrections import Correction, adjust
from results.statistics.estimate import Floats
from results.statistics.paired_tests import PairedTest, paired_test
from results.statistics.two_way import Layout, estimate_mean
from search_spaces.problems import unknown_name

CELL = ["task", "family", "layers", "init_regime", "data_set", "split", "reader", "num_passages"]
MEASURES = ("exact_match", "f1")
ANSWERS_MISSING = "answers are missing"
UNLIKE_SEEDS = "its seeds are not those of the baseline"
NO_BASELINE = "the sweep trains no such baseline here"
OF_PARTS = "it has several parts, whose questions no paired test takes together"
NO_ANSWER_DIFFERS = "no answer is right in one of the two alone"
_DATA = ["data_set", "data_hash", "split"]
_ANSWERS = ["trial_id", *_DATA, "reader", "num_passages"]
_TYPES: dict[str, Any] = {
    "baseline": pl.String,
    **{
        f"{measure}_{name}": pl.Float64
        for measure in MEASURES
        for name in ("gain", "low", "high", "model_p", "adjusted_model_p", "p", "adjusted_p")
    },
    **dict.fromkeys(["num_better", "num_worse", "num_questions", "num_seeds"], pl.Int64),
    **dict.fromkeys(["sources", "reason"], pl.String),
    **{f"{measure}_{name}": pl.String for measure in MEASURES for name in ("reason", "p_reason")},
    "trial_ids": pl.String,
}


def rag_gains(
    answers: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    baseline: str = "cosine",
    where: Mapping[str, str] | None = None,
    pool: bool = False,
    correction: Correction = "holm",
    test: PairedTest = "t",
) -> pl.DataFrame:
    """One row per family, layers, init regime, data set and trained similarity but the baseline; 0 to 1.

    Of `exact_match` and `f1` each: `_gain` over the baseline, means over questions and seeds; `_low` and `_high` of the
    two-way model of seeds and questions, with its `_model_p` (where `sources` says so, of these seeds only); `_p` of a
    paired test of these seeds. The two ask different questions: `_adjusted_model_p` and `_adjusted_p` go through
    `correction` each with its own kind, over both measures and all rows. The paired tests:

    - exact match: exact McNemar; with several seeds a question's answers are no independent observations, so that signs
      are flipped question by question. `num_better` answers are right where the baseline's of the same seed is wrong.
    - F1: the paired `test` on the questions' differences, averaged over seeds.

    A data set of several parts is their unweighted mean: its interval is of that, and it has no paired test.

    Of what is absent `reason` says why a row has no gain, and of each measure `_reason` why it has no interval and
    `_p_reason` why no paired p.

    Raises:
        SelectionError: the rows would pool training data or scales (unless `pool`), or two trials of one cell and
            seed; the choice finds nothing; no trial is trained with `baseline`.
    """
    chosen = select_trials(expected, where or {})
    trained = _trained(chosen, baseline, pool=pool)
    wholes = trained.with_columns(own=pl.struct(_DATA)).with_columns(data_set=as_wholes(trained)["data_set"])
    found = _by_question(answers)
    rows = [
        dict(zip(CELL, key, strict=True)) | row
        for key, cell in wholes.group_by(CELL, maintain_order=True)
        for row in _rows(cell, baseline, found, test)
    ]
    _adjust(rows, correction)
    frame = pl.DataFrame(rows, schema={**{n: wholes.schema[n] for n in CELL}, "similarity": pl.String, **_TYPES})
    named = frame.with_columns(*training_names(trained), kind=pl.lit("train"), score_similarity="similarity")
    return select_result(in_order(named, as_wholes(chosen), ["data_set"]), where or {})


def _trained(chosen: pl.DataFrame, baseline: str, *, pool: bool) -> pl.DataFrame:
    """The rows of trained trials, scored as they were trained. Raises SelectionError as `rag_gains` says."""
    refuse_repeats(chosen)
    trained = chosen.filter((pl.col("kind") == "train") & (pl.col("score_similarity") == pl.col("similarity")))
    if not pool:
        refuse_pooling(trained)
    known = trained["similarity"].unique().sort().to_list()
    if known and baseline not in known:
        raise SelectionError(f"baseline: {unknown_name('trained similarity of these rows', baseline, known)}")
    return trained


def _adjust(rows: Sequence[dict[str, Any]], correction: Correction) -> None:
    """Add the adjusted p of both families to the rows."""
    for p, into in (("p", "adjusted_p"), ("model_p", "adjusted_model_p")):
        adjusted = iter(adjust([row.get(f"{measure}_{p}") for measure in MEASURES for row in rows], correction))
        for measure in MEASURES:
            for row in rows:
                row[f"{measure}_{into}"] = next(adjusted)


def _by_question(answers: pl.DataFrame) -> dict[tuple[Any, ...], tuple[list[str], dict[str, Floats]]]:
    """By trial, data set and reader: question ids in rising order, and their scores."""
    own = answers.filter((pl.col("kind") == "train") & (pl.col("score_similarity") == pl.col("similarity")))
    return {
        key: (part["query_id"].to_list(), {name: part[name].to_numpy() for name in MEASURES})
        for key, part in own.sort("query_id").partition_by(_ANSWERS, as_dict=True).items()
    }


def _rows(
    cell: pl.DataFrame, baseline: str, found: Mapping[tuple[Any, ...], Any], test: PairedTest
) -> Iterator[dict[str, Any]]:
    base = cell.filter(pl.col("similarity") == baseline)
    for similarity in cell["similarity"].unique(maintain_order=True):
        if similarity != baseline:
            own = cell.filter(pl.col("similarity") == similarity)
            ids = dict.fromkeys([*own["trial_id"], *base["trial_id"]])
            row = {"similarity": similarity, "baseline": baseline, "trial_ids": "; ".join(ids)}
            yield row | _compared(own, base, found, test)


def _compared(
    own: pl.DataFrame, base: pl.DataFrame, found: Mapping[tuple[Any, ...], Any], test: PairedTest
) -> dict[str, Any]:
    """The columns of one row but its names."""
    if not base.height:
        return {"reason": NO_BASELINE}
    seeds = [sorted(rows["seed"].unique().to_list()) for rows in (own, base)]
    if seeds[0] != seeds[1]:
        return {"reason": UNLIKE_SEEDS}
    parts = {m: _layouts(own, base, found, m) for m in MEASURES}
    if not all(parts.values()):
        return {"reason": ANSWERS_MISSING}
    columns: dict[str, Any] = {"num_seeds": len(seeds[0])}
    for measure, pairs in parts.items():
        layouts = [
            Layout(values_SQ=a_SQ - b_SQ, weight=1 / len(pairs), seeds="seeds", queries=name)
            for name, a_SQ, b_SQ in pairs
        ]
        columns["num_questions"] = sum(layout.values_SQ.shape[1] for layout in layouts)
        estimate = estimate_mean(layouts)
        columns |= {f"{measure}_gain": estimate.value, f"{measure}_low": estimate.low, f"{measure}_high": estimate.high}
        columns |= {f"{measure}_model_p": estimate.p, "sources": estimate.sources}
        columns[f"{measure}_reason"] = estimate.reason if estimate.low is None else None
    return columns | _paired(parts, test)


def _paired(parts: Mapping[str, Sequence[tuple[str, Floats, Floats]]], test: PairedTest) -> dict[str, Any]:
    """The paired tests of a data set of one part."""
    if len(parts["f1"]) > 1:
        return {f"{measure}_p_reason": OF_PARTS for measure in MEASURES}
    [(_, own_SQ, base_SQ)] = parts["f1"]
    of_f1 = paired_test((own_SQ - base_SQ).mean(axis=0), test)
    return {"f1_p": of_f1.p, "f1_p_reason": of_f1.reason, **_mcnemar(*parts["exact_match"][0][1:])}


def _mcnemar(own_SQ: Floats, base_SQ: Floats) -> dict[str, Any]:
    num_seeds, num_questions = own_SQ.shape
    questions = [str(question) for question in range(num_questions)] * num_seeds
    result = mcnemar(own_SQ.ravel() > 0.5, base_SQ.ravel() > 0.5, clusters=questions if num_seeds > 1 else None)
    p = result.clustered_p if num_seeds > 1 else result.p
    columns = {"exact_match_p": p, "num_better": result.num_for, "num_worse": result.num_against}
    return columns | {"exact_match_p_reason": NO_ANSWER_DIFFERS if p is None else None}


def _layouts(
    own: pl.DataFrame, base: pl.DataFrame, found: Mapping[tuple[Any, ...], Any], measure: str
) -> Sequence[tuple[str, Floats, Floats]]:
    """(name, own, baseline) for each part, (S, Q) each; empty where answers are missing."""
    parts = []
    for data in own["own"].unique(maintain_order=True):
        sides = [_seeds_by_questions(rows, data, found, measure) for rows in (own, base)]
        (own_ids, own_SQ), (base_ids, base_SQ) = sides
        if own_SQ is None or base_SQ is None or own_ids != base_ids:
            return []
        parts.append((f"{data['data_set']}/{data['split']}", own_SQ, base_SQ))
    return parts


def _seeds_by_questions(
    rows: pl.DataFrame, data: Mapping[str, str], found: Mapping[tuple[Any, ...], Any], measure: str
) -> tuple[list[str], Floats | None]:
    is_wanted = [pl.col("own").struct.field(name) == data[name] for name in _DATA]
    of_data = rows.filter(*is_wanted).sort("seed")
    keys = [
        (row["trial_id"], *(data[name] for name in _DATA), row["reader"], row["num_passages"])
        for row in of_data.iter_rows(named=True)
    ]
    if not keys or not all(key in found for key in keys):
        return [], None
    ids = [found[key][0] for key in keys]
    if any(other != ids[0] for other in ids):
        return [], None
    return ids[0], np.stack([found[key][1][measure] for key in keys])
