"""Which evaluations the store lacks of a checkpoint. Imports no torch: planning uses it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from results.layout import (
    LAST_EMBEDDINGS,
    answer_rows,
    embedding_rows,
    judgement_rows,
    norm_rows,
    run_file,
    scored_rows,
)
from results.store import Readable
from search_spaces.identity import answers_id, encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import EvaluationSpec, SimilaritySpec

Wanted = Mapping[EvaluationSpec, Sequence[SimilaritySpec]]


def missing_evaluations(
    checkpoint_hash: str, similarity: SimilaritySpec | None, evaluation: EvaluationSpec, store: Readable
) -> list[SimilaritySpec]:
    """The score similarities whose rows, run file or answers the store lacks.

    All of them where it is to be encoded again: where norms are lacking, or embeddings that are to be kept.
    """
    wanted = score_similarities(similarity, evaluation)
    if _lacks_encoding(checkpoint_hash, evaluation, store):
        return list(wanted)
    return [s for s in wanted if _lacks_rows(checkpoint_hash, s, evaluation, store)]


def lacks_only_answers(
    checkpoint_hash: str, similarities: Sequence[SimilaritySpec], evaluation: EvaluationSpec, store: Readable
) -> bool:
    """Whether all that is missing under these score similarities is what a reader answers."""
    if evaluation.rag is None or _lacks_encoding(checkpoint_hash, evaluation, store):
        return False
    measured = replace(evaluation, rag=None)
    return not any(_lacks_rows(checkpoint_hash, similarity, measured, store) for similarity in similarities)


def lacks_answers(
    checkpoint_hash: str, similarity: SimilaritySpec, evaluation: EvaluationSpec, store: Readable
) -> bool:
    """Whether a reader is to answer the data set's questions, and has not."""
    if evaluation.rag is None:
        return False
    return not store.exists(answer_rows(answers_id(checkpoint_hash, evaluation, similarity)))


def _lacks_rows(checkpoint_hash: str, similarity: SimilaritySpec, evaluation: EvaluationSpec, store: Readable) -> bool:
    key = evaluation_id(checkpoint_hash, evaluation, similarity)
    if evaluation.keeps_runs and not store.exists(run_file(key)):
        return True
    return not store.exists(scored_rows(evaluation, key)) or lacks_answers(
        checkpoint_hash, similarity, evaluation, store
    )


def _lacks_encoding(checkpoint_hash: str, evaluation: EvaluationSpec, store: Readable) -> bool:
    encoding = encoding_id(checkpoint_hash, evaluation)
    lacks_embeddings = evaluation.keep_embeddings and not store.exists(embedding_rows(encoding, LAST_EMBEDDINGS))
    # A folder of before judgements were kept gets them by one pass of one checkpoint: the others then find them.
    data = evaluation.data
    lacks_judgements = not data.entry.is_scored and not store.exists(judgement_rows(data))
    return lacks_embeddings or lacks_judgements or not store.exists(norm_rows(encoding))
