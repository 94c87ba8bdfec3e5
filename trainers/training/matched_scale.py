"""The divisor of a matched scale: the starting encoder's norms, so that logits start alike under all similarities."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from search_spaces.specs import Precision, ScaleSpec
from trainers.encoders.encode import encode
from trainers.encoders.encoder import Encoder, Side
from trainers.similarity import Gammas
from trainers.training.batch_source import BatchSource

Norms = Callable[[], NDArray[np.float64]]
NUM_TEXTS = 1024  # of each side; norms vary by a tenth or so, hence their mean is known to a third of a percent


def with_divisor(
    scale: ScaleSpec, encoder: Encoder, gammas: Gammas, texts: BatchSource, precision: Precision
) -> ScaleSpec:
    """The scale as it is trained with: `matched` over evenly spaced training texts, dropout off.

    Raises:
        ValueError: the starting encoder maps texts to zero or to what is not finite.
    """
    gamma_q, gamma_d = (gamma.item() for gamma in gammas.values())
    return matched(
        scale,
        gamma_q,
        gamma_d,
        query_norms=lambda: _norms(encoder, texts.query_texts, "query", precision),
        document_norms=lambda: _norms(encoder, texts.document_texts, texts.document_side, precision),
    )


def matched(
    scale: ScaleSpec, gamma_q: float, gamma_d: float, *, query_norms: Norms, document_norms: Norms
) -> ScaleSpec:
    """A matched scale with its divisor, mean |q|^(1-gamma_q) * mean |d|^(1-gamma_d); a fixed one is as it was.

    Args:
        scale: as the sweep asks for it.
        gamma_q: where training starts.
        gamma_d: likewise.
        query_norms: gives the norms of raw embeddings of queries [N]; called only where they count.
        document_norms: likewise of documents.

    Raises:
        ValueError: the divisor is zero or not finite.
    """
    if scale.mode == "fixed":
        return scale
    divisor = _mean_power(query_norms, 1 - gamma_q) * _mean_power(document_norms, 1 - gamma_d)
    if not 0 < divisor < np.inf:
        raise ValueError(f"the starting encoder's norms give a matched scale the divisor {divisor}; use fixed(N)")
    return replace(scale, divisor=divisor)


def _mean_power(norms: Norms, exponent: float) -> float:
    return float((norms() ** exponent).mean()) if exponent else 1.0


def _norms(encoder: Encoder, texts: Sequence[str], side: Side, precision: Precision) -> NDArray[np.float64]:
    places = np.unique(np.linspace(0, len(texts) - 1, NUM_TEXTS).round().astype(np.int64))
    vectors_NH = encode(encoder, [texts[place] for place in places.tolist()], side, precision=precision)
    norm_N: NDArray[np.float64] = np.linalg.norm(vectors_NH.astype(np.float64), axis=1)
    return norm_N
