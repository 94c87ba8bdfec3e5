"""A checkpoint on scored pairs of texts: encode each text once, score every pair both ways round, write rows.

Under a symmetric similarity s(a, b) = s(b, a); where the exponents differ the two orders rank the pairs differently,
and their rows show it. The rank correlation with the raters' scores is computed from the rows (`results.spearman`).

Shapes: P pairs, U different texts, H embedding size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from results.layout import LAST_EMBEDDINGS, norm_rows, sts_rows
from results.rows import write_rows
from results.store import Store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import EvaluationSpec, SimilaritySpec
from trainers.arrays import FloatMatrix
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.encoders.encode import Progress, encode
from trainers.encoders.encoder import Encoder, Side
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.evaluation_rows import norm_columns, sts_columns
from trainers.evaluation.judged_queries import load_evaluated
from trainers.evaluation.kept_embeddings import keep_part
from trainers.evaluation.stream import norms
from trainers.provenance import provenance
from trainers.similarity import pair_scores
from trainers.training.sts_pairs import SIDE, ScoredPairs, scored_pairs


@dataclass(frozen=True, kw_only=True)
class EmbeddedPairs:
    """Raw embeddings of both texts of each pair, float32 [P, H] each."""

    first_PH: FloatMatrix
    second_PH: FloatMatrix

    def scores(self, similarity: SimilaritySpec) -> Mapping[str, FloatMatrix]:
        """Both orders of every pair, float32 [P] each: 'forward' is s(a, b), 'swapped' s(b, a)."""
        first_PH, second_PH = torch.from_numpy(self.first_PH), torch.from_numpy(self.second_PH)
        gammas = (similarity.gamma_q, similarity.gamma_d)
        return {
            "forward": pair_scores(first_PH, second_PH, *gammas).numpy(),
            "swapped": pair_scores(second_PH, first_PH, *gammas).numpy(),
        }


def evaluate_sts(
    folder: Path,
    evaluation: EvaluationSpec,
    similarities: Sequence[SimilaritySpec],
    *,
    store: Store,
    encoder: Encoder | None = None,
    checkpoint: str | None = None,
    verify: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """As `trainers.evaluation.evaluate.evaluate_all`, for one data set of scored pairs.

    `checkpoint` is the hash of what is in `folder`, where the caller knows it: all of its weights are read for it.
    `say` is told now and then how far the encoding is.
    """
    if not similarities:
        return
    pairs = scored_pairs(load_evaluated(evaluation), evaluation.data.split)
    encoder = encoder or load_checkpoint(folder).encoder
    meter = EncodingMeter(f"evaluating {evaluation.data.name}", len(_texts(pairs)), say)
    embedded = embed_pairs(encoder, pairs, evaluation=evaluation, progress=meter)
    checkpoint, made_by = checkpoint or checkpoint_hash(folder), provenance().to_json()
    columns = _norm_columns(checkpoint, evaluation, pairs, embedded)
    verify()
    if evaluation.keep_embeddings:
        _keep(store, checkpoint, evaluation, pairs, embedded)
    write_rows(store, norm_rows(encoding_id(checkpoint, evaluation)), "norms", columns, provenance_json=made_by)
    for similarity in similarities:
        rows = sts_columns(checkpoint, evaluation, similarity, pairs, embedded.scores(similarity))
        verify()
        key = sts_rows(evaluation_id(checkpoint, evaluation, similarity))
        write_rows(store, key, "sts", rows, provenance_json=made_by)


def embed_pairs(
    encoder: Encoder, pairs: ScoredPairs, *, evaluation: EvaluationSpec, progress: Progress | None = None
) -> EmbeddedPairs:
    """Encode each different text once; a text that stands first in one pair and second in another is one vector.

    Raises:
        ValueError: embeddings are not finite.
    """
    texts = _texts(pairs)
    row = {text: index for index, text in enumerate(texts)}
    with encoder.instructed(evaluation.instruction):
        vector_UH = encode(encoder, texts, SIDE, precision=evaluation.precision, progress=progress)
    _check_finite(vector_UH)
    return EmbeddedPairs(
        first_PH=vector_UH[[row[text] for text in pairs.first_texts]],
        second_PH=vector_UH[[row[text] for text in pairs.second_texts]],
    )


def _texts(pairs: ScoredPairs) -> list[str]:
    """The different texts, in the order of their first place."""
    return list(dict.fromkeys((*pairs.first_texts, *pairs.second_texts)))


def _check_finite(vector_UH: FloatMatrix) -> None:
    broken = int((~np.isfinite(vector_UH).all(axis=1)).sum())
    if broken:
        raise ValueError(f"{broken} of {len(vector_UH)} vectors hold NaN or infinity: the encoder has diverged")


def _keep(
    store: Store, checkpoint: str, evaluation: EvaluationSpec, pairs: ScoredPairs, embedded: EmbeddedPairs
) -> None:
    """Embeddings under the pairs' ids: first texts as queries, second ones as documents."""
    parts: list[tuple[str, Side, FloatMatrix]] = [
        ("000000", "document", embedded.second_PH),
        (LAST_EMBEDDINGS, "query", embedded.first_PH),
    ]
    for part, side, vector_PH in parts:
        ids = pa.array(pairs.ids, pa.string())
        keep_part(store, checkpoint, evaluation, part, side, ids, vector_PH, norms(vector_PH))


def _norm_columns(
    checkpoint: str, evaluation: EvaluationSpec, pairs: ScoredPairs, embedded: EmbeddedPairs
) -> Mapping[str, Any]:
    """Norms under the pairs' ids: first texts as queries, second ones as documents."""
    return norm_columns(
        checkpoint,
        evaluation,
        query_ids=pairs.ids,
        query_norm_Q=norms(embedded.first_PH),
        document_ids=pa.chunked_array([pa.array(pairs.ids, pa.string())]),
        document_norm_N=norms(embedded.second_PH),
    )
