"""Which stored rows a sweep asks for of a checkpoint: keys made from its trial's row and its planned evaluations.

Rows of an older version, of other measures or of another precision lie under other keys, and are never read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from results.layout import (
    answer_rows,
    evaluations_from_bytes,
    evaluations_key,
    judgement_rows,
    norm_rows,
    per_query_rows,
    run_file,
    scored_rows,
)
from results.store import Readable
from search_spaces.identity import answers_id, encoding_id, evaluation_id
from search_spaces.scoring import score_similarities, trained_similarity
from search_spaces.specs import EvaluationSpec, TrialSpec, from_json


@dataclass(frozen=True, kw_only=True)
class AskedRows:
    """One data set scored with one similarity, and the key of its rows or run file, which may not be there."""

    evaluation: EvaluationSpec
    score_similarity: str
    key: str


@dataclass(frozen=True, kw_only=True)
class AskedEncoding:
    """One collection, and the keys of the norms found on it and of its judgements, which may not be there."""

    evaluation: EvaluationSpec
    norms: str
    judgements: str


def asked_evaluations(store: Readable, trial: Mapping[str, Any]) -> Iterator[AskedRows]:
    """The per query rows and scored pairs that a checkpoint must have; `trial` is its row of the schema TRIALS."""
    spec = from_json(TrialSpec, trial["spec_json"])
    own = trained_similarity(spec.similarity, trial["gamma_q"], trial["gamma_d"])
    for evaluation in planned_evaluations(store, trial["trial_id"]):
        for similarity in score_similarities(own, evaluation):
            key = scored_rows(evaluation, evaluation_id(trial["checkpoint_hash"], evaluation, similarity))
            yield AskedRows(evaluation=evaluation, score_similarity=similarity.name, key=key)


def asked_runs(store: Readable, trial: Mapping[str, Any]) -> Iterator[AskedRows]:
    """The run files that are to be kept of a checkpoint; `trial` is its row of the schema TRIALS."""
    spec = from_json(TrialSpec, trial["spec_json"])
    own = trained_similarity(spec.similarity, trial["gamma_q"], trial["gamma_d"])
    for evaluation in planned_evaluations(store, trial["trial_id"]):
        for similarity in score_similarities(own, evaluation) if evaluation.keeps_runs else ():
            key = run_file(evaluation_id(trial["checkpoint_hash"], evaluation, similarity))
            yield AskedRows(evaluation=evaluation, score_similarity=similarity.name, key=key)


@dataclass(frozen=True, kw_only=True)
class AskedTwice:
    """One data set scored with one similarity, on its pool and over its whole corpus; neither rows may be there."""

    evaluation: EvaluationSpec
    score_similarity: str
    pool_key: str
    full_key: str


def asked_twice(store: Readable, trial: Mapping[str, Any]) -> Iterator[AskedTwice]:
    """The evaluations of a checkpoint on pools; `trial` is its row of the schema TRIALS."""
    spec = from_json(TrialSpec, trial["spec_json"])
    own = trained_similarity(spec.similarity, trial["gamma_q"], trial["gamma_d"])
    for evaluation in planned_evaluations(store, trial["trial_id"]):
        for similarity in score_similarities(own, evaluation) if evaluation.tier == "pool" else ():
            keys = (evaluation_id(trial["checkpoint_hash"], e, similarity) for e in (evaluation, evaluation.whole))
            pool_key, full_key = map(per_query_rows, keys)
            yield AskedTwice(
                evaluation=evaluation, score_similarity=similarity.name, pool_key=pool_key, full_key=full_key
            )


def asked_answers(store: Readable, trial: Mapping[str, Any]) -> Iterator[AskedRows]:
    """The answers that a reader must have given for a checkpoint; `trial` is its row of the schema TRIALS."""
    spec = from_json(TrialSpec, trial["spec_json"])
    own = trained_similarity(spec.similarity, trial["gamma_q"], trial["gamma_d"])
    for evaluation in planned_evaluations(store, trial["trial_id"]):
        for similarity in score_similarities(own, evaluation) if evaluation.rag else ():
            key = answer_rows(answers_id(trial["checkpoint_hash"], evaluation, similarity))
            yield AskedRows(evaluation=evaluation, score_similarity=similarity.name, key=key)


def asked_norms(store: Readable, trial: Mapping[str, Any]) -> list[str]:
    """Keys of the norms that a checkpoint must have; `trial` is its row of the schema TRIALS."""
    return [
        norm_rows(encoding_id(trial["checkpoint_hash"], evaluation))
        for evaluation in planned_evaluations(store, trial["trial_id"])
    ]


def asked_encodings(store: Readable, trial: Mapping[str, Any]) -> Iterator[AskedEncoding]:
    """The norms and judgements of every collection that a checkpoint is ranked on; `trial` is its row of TRIALS."""
    for evaluation in planned_evaluations(store, trial["trial_id"]):
        if not evaluation.data.entry.is_scored:
            yield AskedEncoding(
                evaluation=evaluation,
                norms=norm_rows(encoding_id(trial["checkpoint_hash"], evaluation)),
                judgements=judgement_rows(evaluation.data),
            )


def planned_evaluations(store: Readable, trial_id: str) -> tuple[EvaluationSpec, ...]:
    """What the planner left beside the trial; nothing where it has not yet."""
    key = evaluations_key(trial_id)
    return evaluations_from_bytes(store.read(key)) if store.exists(key) else ()
