"""The score that counts, and the norms that bound what an approximation can hide.

Shapes: Q queries, N any vectors, T documents of a tile, P pairs of both, H embedding size.
"""

import numpy as np
import torch
from torch import Tensor

from trainers.arrays import FloatMatrix, Indices, Scores
from trainers.similarity import search_vectors

_SCRATCH_NUMBERS = 1 << 18  # of float64: what a pass writes is still in the cache when the next one reads it
_LANES = 64  # a multiple of what a processor's registers hold
_SAFE_NORMS = (1e-15, 1e15)  # between them no square leaves the normal range of float32


def exact_scores(query_QH: Tensor, raw_TH: Tensor, gamma_d: float, query_P: Indices, index_P: Indices) -> Scores:
    """Score pairs of a query and a document, float32 [P].

    The sum of exact products in float64, rounded once to float32. It depends on the two vectors alone: neither on the
    other pairs, nor on blocks, devices or threads, as a matrix product in float32 does.

    Args:
        query_QH: float32, on the CPU.
        raw_TH: raw document vectors, float32, on the CPU.
        gamma_d: the exponent of the documents' norm.
        query_P: rows of `query_QH`.
        index_P: rows of `raw_TH`.
    """
    score_P: Scores = np.empty(len(query_P), dtype=np.float32)
    step = max(1, _SCRATCH_NUMBERS // query_QH.shape[1] // _LANES) * _LANES
    for start in range(0, len(query_P), step):
        some = slice(start, start + step)
        document_PH = _search_vectors(raw_TH, gamma_d, torch.from_numpy(index_P[some]))
        product_PH = query_QH.index_select(0, torch.from_numpy(query_P[some])).double()
        product_PH *= document_PH.double()
        score_P[some] = product_PH.numpy().sum(axis=1)  # numpy adds up each row alike, whatever the others
    return score_P


def _search_vectors(raw_TH: Tensor, gamma_d: float, index_P: Tensor) -> Tensor:
    """The search vectors of some documents, the same bits wherever they stand."""
    if gamma_d == 0:  # which leaves every bit as it is
        return raw_TH.index_select(0, index_P)
    # torch's pow rounds what is left over after whole vector registers in another way: so nothing is left over.
    padded_P = torch.nn.functional.pad(index_P, (0, -len(index_P) % _LANES))
    return search_vectors(raw_TH.index_select(0, padded_P), gamma_d)[: len(index_P)]


def checked_norms(vector_NH: Tensor, what: str, first: int) -> Tensor:
    """The norm of each vector, float64 [N]; exact to float32 where it lies between 1e-15 and 1e15, else to float64.

    Args:
        vector_NH: float32.
        what: 'query' or 'document', for the message.
        first: the position of the first one, for the message.

    Raises:
        ValueError: a vector holds NaN or infinity.
    """
    norm_N = torch.linalg.vector_norm(vector_NH, dim=1).double()
    unsafe = _unsafe(norm_N)
    if len(unsafe):
        norm_N[unsafe] = torch.linalg.vector_norm(vector_NH[unsafe].double(), dim=1)
        _refuse_broken(norm_N, what, first)
    return norm_N


def search_norms(raw_TH: Tensor, norm_T: Tensor, gamma_d: float) -> Tensor:
    """The norm of each document's search vector, float64 [T], from its own (float64)."""
    # What the similarity makes of a vector of one component, it makes of any vector of that norm; but not where the
    # squares within its norm leave the range of float32.
    found_T = search_vectors(norm_T.float()[:, None], gamma_d)[:, 0].double()
    unsafe = _unsafe(norm_T)
    if len(unsafe):
        found_T[unsafe] = torch.linalg.vector_norm(search_vectors(raw_TH[unsafe], gamma_d).double(), dim=1)
    return found_T


def _unsafe(norm_N: Tensor) -> Tensor:
    """Which norms may have lost squares outside the normal range of float32, or are NaN."""
    lowest, highest = _SAFE_NORMS
    return (~((norm_N > lowest) & (norm_N < highest))).nonzero()[:, 0]


def _refuse_broken(norm_N: Tensor, what: str, first: int) -> None:
    broken = (~norm_N.isfinite()).nonzero()[:, 0]
    if len(broken):
        raise ValueError(
            f"{len(broken)} of {len(norm_N)} {what} vectors hold NaN or infinity, "
            f"{what} number {first + int(broken[0])} (from 0) is the first: the encoder has diverged"
        )


def as_float32(vectors: FloatMatrix) -> Tensor:
    """A float32 tensor of an array that may be read-only, strided or of another precision."""
    return torch.from_numpy(np.require(vectors, np.float32, ["C", "W"]))
