"""Pairs of queries and documents that may enter a ranking: their exact score, and what rounding can hide.

Shapes: Q queries, D documents of a block, P pairs, H embedding size.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float32]
Float64Vector = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_UNIT_ROUNDOFF = 2.0**-24  # of float32
_SMALLEST_NORMAL = 2.0**-126  # products below it may be flushed to zero
_SCRATCH_NUMBERS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """P pairs: the row of a query, the position of a document in the corpus, and the score (float32)."""

    query_P: Indices
    document_P: Indices
    score_P: FloatMatrix


def checked_norms(vectors: FloatMatrix, what: str, first: int) -> Float64Vector:
    """The norm of each vector, float64.

    Args:
        vectors: float32 [N, H].
        what: 'query' or 'document', for the message.
        first: the position of the first one, for the message.

    Raises:
        ValueError: a vector holds NaN or infinity.
    """
    norms: Float64Vector = np.sqrt(np.einsum("nh,nh->n", vectors, vectors, dtype=np.float64))
    if not np.isfinite(norms).all():
        broken = np.flatnonzero(~np.isfinite(norms))
        raise ValueError(
            f"{len(broken)} of {len(vectors)} {what} vectors hold NaN or infinity, "
            f"{what} number {first + broken[0]} (from 0) is the first: the encoder has diverged"
        )
    return norms


def largest_error(query_norm_Q: Float64Vector, document_norm_D: Float64Vector, size: int) -> Float64Vector:
    """A bound [Q] on |float32 inner product, summed in any order - its `scored` value| over a block's documents.

    |fl(q.d) - q.d| <= H u / (1 - H u) |q| |d| (Higham, Accuracy and Stability of Numerical Algorithms, 3.5), and one
    more rounding in `scored`.

    Raises:
        ValueError: an inner product can exceed float32.
    """
    largest = float(document_norm_D.max())
    if query_norm_Q.max() * largest > np.finfo(np.float32).max:
        raise ValueError(
            f"embeddings are too large for float32 scores: the norm of a query is {query_norm_Q.max():.3g} and of a "
            f"document {largest:.3g}"
        )
    return (size + 8) * (_UNIT_ROUNDOFF * query_norm_Q * largest + _SMALLEST_NORMAL)


def scored(
    query_QH: FloatMatrix, document_DH: FloatMatrix, query_P: Indices, index_P: Indices, *, first: int
) -> Candidates:
    """Score pairs of a query and a document of the block that begins at corpus position `first`.

    The sum of exact products in float64, rounded once to float32. It depends on the two vectors alone: neither on the
    other pairs, nor on blocks or threads, as a matrix product in float32 does.
    """
    score_P = np.empty(len(query_P), dtype=np.float32)
    step = max(1, _SCRATCH_NUMBERS // query_QH.shape[1])
    for start in range(0, len(query_P), step):
        some = slice(start, start + step)
        products = query_QH[query_P[some]].astype(np.float64)
        products *= document_DH[index_P[some]]
        score_P[some] = products.sum(axis=1)
    return Candidates(query_P=query_P, document_P=index_P + first, score_P=score_P)
