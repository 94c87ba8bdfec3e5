"""Which evaluations the store lacks of a checkpoint. Imports no torch: planning uses it."""

from results.layout import norm_rows, scored_rows
from results.store import Store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import EvaluationSpec, SimilaritySpec


def missing_evaluations(
    checkpoint_hash: str, similarity: SimilaritySpec | None, evaluation: EvaluationSpec, store: Store
) -> list[SimilaritySpec]:
    """The score similarities whose rows the store lacks; all of them where the norms are lacking."""
    wanted = score_similarities(similarity, evaluation)
    if not store.exists(norm_rows(encoding_id(checkpoint_hash, evaluation))):
        return list(wanted)
    return [
        s for s in wanted if not store.exists(scored_rows(evaluation, evaluation_id(checkpoint_hash, evaluation, s)))
    ]
