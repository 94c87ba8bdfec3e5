"""Which evaluations a checkpoint must have, and which of them the store lacks. Imports no torch: planning uses it."""

from dataclasses import replace

from results.layout import norm_rows, per_query_rows
from results.store import Store
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import EvaluationSpec, SimilaritySpec


def trained_similarity(
    similarity: SimilaritySpec | None, gamma_q: float | None, gamma_d: float | None
) -> SimilaritySpec | None:
    """The similarity of a checkpoint: its trial's, with the exponents as training left them; None if untrained."""
    if similarity is None or gamma_q is None or gamma_d is None:
        return similarity
    return replace(similarity, gamma_q=gamma_q, gamma_d=gamma_d)


def score_similarities(similarity: SimilaritySpec | None, evaluation: EvaluationSpec) -> tuple[SimilaritySpec, ...]:
    """What a checkpoint is scored with: its own similarity; every fixed one where it has none, or 'all' is asked."""
    own = (similarity,) if similarity else ()
    if similarity and evaluation.score_similarities == "own":
        return own
    names = {s.name for s in own}
    fixed = [s for s in SIMILARITIES.values() if not s.trained and s.name not in names]
    return own + tuple(SimilaritySpec(name=s.name, gamma_q=s.gamma_q, gamma_d=s.gamma_d, trained=False) for s in fixed)


def missing_evaluations(
    checkpoint_hash: str, similarity: SimilaritySpec | None, evaluation: EvaluationSpec, store: Store
) -> list[SimilaritySpec]:
    """The score similarities whose rows the store lacks; all of them where the norms are lacking."""
    wanted = score_similarities(similarity, evaluation)
    if not store.exists(norm_rows(encoding_id(checkpoint_hash, evaluation))):
        return list(wanted)
    return [s for s in wanted if not store.exists(per_query_rows(evaluation_id(checkpoint_hash, evaluation, s)))]
