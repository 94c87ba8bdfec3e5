"""What a pass found, kept until a reader has answered from it: a kill meanwhile costs answers, and no encoding.

Shapes: Q queries, K results.
"""

from collections.abc import Collection, Mapping

from results.store import Store
from search_spaces.specs import EvaluationSpec
from trainers.arrays import Indices
from trainers.evaluation.unfinished import Unfinished, ranking_parts, read_unfinished, unfinished_key, write_unfinished


def keep_found(
    store: Store, checkpoint_hash: str, evaluation: EvaluationSpec, order: str, document_QK: Mapping[float, Indices]
) -> None:
    """Write the rankings under each gamma_d: positions in the corpus, int64 [Q, K], best first, -1 for none.

    `order` is the `order_digest` of the queries and the corpus.
    """
    arrays = {f"documents {place}": found for place, found in enumerate(document_QK.values())}
    key = _key(checkpoint_hash, evaluation, order)
    write_unfinished(store, key, Unfinished(record=list(document_QK), arrays=arrays))


def kept_found(
    store: Store, checkpoint_hash: str, evaluation: EvaluationSpec, order: str, gammas_d: Collection[float]
) -> Mapping[float, Indices] | None:
    """The rankings under each gamma_d that were kept; None where none are, or not those under one of these."""
    left = read_unfinished(store, _key(checkpoint_hash, evaluation, order))
    if left is None:
        return None
    found = {gamma_d: left.arrays[f"documents {place}"] for place, gamma_d in enumerate(left.record)}
    return found if set(gammas_d) <= set(found) else None


def _key(checkpoint_hash: str, evaluation: EvaluationSpec, order: str) -> str:
    """It names all that decides a ranking, and by what it counts, but the gamma_d."""
    return unfinished_key(checkpoint_hash, "found", [*ranking_parts(checkpoint_hash, evaluation), order])
