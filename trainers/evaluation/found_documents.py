"""What a pass found, kept until a reader has answered from it: a kill meanwhile costs answers, and no encoding.

Shapes: Q queries, K results.
"""

import hashlib
import io
import json
from collections.abc import Collection, Mapping

import numpy as np

from results.layout import unfinished_prefix
from results.store import Store
from search_spaces.identity import encoding_id
from search_spaces.specs import EvaluationSpec
from trainers.arrays import Indices
from trainers.evaluation.measures import depth


def keep_found(
    store: Store, checkpoint_hash: str, evaluation: EvaluationSpec, order: str, document_QK: Mapping[float, Indices]
) -> None:
    """Write the rankings under each gamma_d: positions in the corpus, int64 [Q, K], best first, -1 for none.

    `order` is the `order_digest` of the queries and the corpus.
    """
    buffer = io.BytesIO()
    arrays = {f"documents {place}": found for place, found in enumerate(document_QK.values())}
    np.savez(buffer, gammas_d=np.array(json.dumps(list(document_QK))), **arrays)  # type: ignore[arg-type]
    store.write(_key(checkpoint_hash, evaluation, order), buffer.getvalue())


def kept_found(
    store: Store, checkpoint_hash: str, evaluation: EvaluationSpec, order: str, gammas_d: Collection[float]
) -> Mapping[float, Indices] | None:
    """The rankings under each gamma_d that were kept; None where none are, or not those under one of these."""
    key = _key(checkpoint_hash, evaluation, order)
    if not store.exists(key):
        return None
    with np.load(io.BytesIO(store.read(key))) as arrays:
        known = json.loads(str(arrays["gammas_d"]))
        found = {gamma_d: arrays[f"documents {place}"] for place, gamma_d in enumerate(known)}
    return found if set(gammas_d) <= set(found) else None


def _key(checkpoint_hash: str, evaluation: EvaluationSpec, order: str) -> str:
    """It names all that decides a ranking, and by what it counts, but the gamma_d."""
    entry = evaluation.data.entry
    parts = [encoding_id(checkpoint_hash, evaluation), entry.exclusion, str(depth(entry.measures)), order]
    digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    return f"{unfinished_prefix(checkpoint_hash)}/found-{digest}.npz"
