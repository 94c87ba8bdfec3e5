"""The one order of a ranking: score descending, then document id descending, as trec_eval has it.

trec_eval sorts ids by strcmp, hence by their UTF-8 bytes. A score and a document's place among equal scores fit into
one integer, a rank key: the smaller, the better, and no two documents share one, so that any way of sorting and
merging keys gives the same ranking.

Shapes: N documents of the corpus, X any.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainers.arrays import Indices, Keys, Scores

Ids = pa.Array | pa.ChunkedArray | Sequence[str]
NO_KEY = np.int64(np.iinfo(np.int64).max)  # worse than every document
_MOST_DOCUMENTS = 1 << 32
_LOOKED_UP = 1 << 16
_MAGNITUDE = np.int64(0x7FFFFFFF)  # all bits of a float32 but its sign


def tie_ranks(document_ids: Ids) -> Indices:
    """Where each document stands [N] among equal scores: id descending, by UTF-8 bytes as trec_eval's strcmp.

    Raises:
        ValueError: two documents have one id, or there are more than a rank key can tell apart.
    """
    ids = document_ids if isinstance(document_ids, pa.Array | pa.ChunkedArray) else pa.array(document_ids, pa.string())
    if len(ids) >= _MOST_DOCUMENTS:
        raise ValueError(f"the corpus has {len(ids)} documents; at most {_MOST_DOCUMENTS - 1} can be ranked")
    order = pc.sort_indices(ids, sort_keys=[("", "descending")]).to_numpy()
    ranks: Indices = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def rank_keys(score_X: Scores, tie_rank_X: Indices) -> Keys:
    """One integer for each score and tie rank: smaller means earlier in the ranking. Scores are finite."""
    # As an integer a float32 rises with its value if positive, and falls if negative; 0.0 makes -0.0 equal to it.
    bits_X = (score_X + np.float32(0)).view(np.int32).astype(np.int64)
    ascending_X = np.where(bits_X < 0, bits_X ^ _MAGNITUDE, bits_X)
    keys: Keys = (-ascending_X << 32) + tie_rank_X
    return keys


def scores_of(key_X: Keys) -> Scores:
    """The scores in rank keys; -inf for NO_KEY."""
    ascending_X = -(key_X >> 32)
    bits_X = np.where(ascending_X < 0, ascending_X ^ _MAGNITUDE, ascending_X).astype(np.int32)
    scores: Scores = np.where(key_X == NO_KEY, np.float32(-np.inf), bits_X.view(np.float32))
    return scores


def tie_ranks_of(key_X: Keys) -> Indices:
    """The tie ranks in rank keys; -1 for NO_KEY."""
    return np.where(key_X == NO_KEY, np.int64(-1), key_X & np.int64(_MOST_DOCUMENTS - 1))


def positions_of(tie_rank_X: Indices, tie_rank_N: Indices) -> Indices:
    """Where in the corpus the documents of some tie ranks stand; -1 for -1. Takes no more memory for more documents."""
    wanted = np.unique(np.append(tie_rank_X, -1))
    positions: Indices = np.full(len(wanted), -1, dtype=np.int64)
    for start in range(0, len(tie_rank_N), _LOOKED_UP):
        some = tie_rank_N[start : start + _LOOKED_UP]
        place = np.searchsorted(wanted, some).clip(max=len(wanted) - 1)
        found = wanted[place] == some
        positions[place[found]] = start + np.flatnonzero(found)
    return positions[np.searchsorted(wanted, tie_rank_X)]
