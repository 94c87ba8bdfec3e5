"""What a checkpoint is scored with: its own similarity as training left it, or the catalogue's fixed ones."""

from dataclasses import replace

from search_spaces.catalogue.similarities import SIMILARITIES
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
