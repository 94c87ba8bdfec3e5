"""Evaluation results as columns of the row contract. Imports no torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from search_spaces.specs import EvaluationSpec, SimilaritySpec
from trainers.arrays import FloatMatrix
from trainers.evaluation.measures import QueryValue
from trainers.training.sts_pairs import ScoredPairs

Columns = Mapping[str, Any]
_ROWS_A_CHUNK = 65_536


def norm_columns(
    checkpoint_hash: str,
    evaluation: EvaluationSpec,
    *,
    query_ids: Sequence[str],
    query_norm_Q: FloatMatrix,
    document_ids: pa.ChunkedArray,
    document_norm_N: FloatMatrix,
) -> Columns:
    """The NORMS rows of one encoding: queries, then documents."""
    num_queries, num_documents = len(query_norm_Q), len(document_norm_N)
    return {
        **evaluated_columns(checkpoint_hash, evaluation, num_queries + num_documents),
        "side": pa.chunked_array(
            [*_constant("query", num_queries).chunks, *_constant("document", num_documents).chunks]
        ),
        "text_id": pa.chunked_array([pa.array(query_ids, pa.string()), *document_ids.chunks]),
        "norm": np.concatenate([query_norm_Q, document_norm_N]),
    }


def judgement_columns(data_hash: str, qrels: Mapping[str, Mapping[str, int]]) -> Columns:
    """The JUDGEMENTS rows of one split: `qrels` has the grades of each query's documents."""
    pairs = [(query, document) for query, grades in qrels.items() for document in grades]
    return {
        "data_hash": pa.repeat(data_hash, len(pairs)),
        "query_id": pa.array([query for query, _ in pairs], pa.string()),
        "document_id": pa.array([document for _, document in pairs], pa.string()),
        "relevance": pa.array([qrels[query][document] for query, document in pairs], pa.int64()),
    }


def per_query_columns(
    checkpoint_hash: str, evaluation: EvaluationSpec, score_similarity: SimilaritySpec, values: Sequence[QueryValue]
) -> Columns:
    """The PER_QUERY rows of one evaluation."""
    return {
        **evaluated_columns(checkpoint_hash, evaluation, len(values)),
        "tier": pa.repeat(evaluation.tier, len(values)),
        "score_similarity": pa.repeat(score_similarity.name, len(values)),
        "query_id": [value.query_id for value in values],
        "measure": [value.measure for value in values],
        "value": [value.value for value in values],
    }


def sts_columns(
    checkpoint_hash: str,
    evaluation: EvaluationSpec,
    score_similarity: SimilaritySpec,
    pairs: ScoredPairs,
    scores: Mapping[str, FloatMatrix],
) -> Columns:
    """The STS rows of one evaluation: all pairs in each of the orders that `scores` has."""
    num_rows = len(pairs) * len(scores)
    return {
        **evaluated_columns(checkpoint_hash, evaluation, num_rows),
        "score_similarity": pa.repeat(score_similarity.name, num_rows),
        "pair_id": [*pairs.ids] * len(scores),
        "order": [order for order in scores for _ in pairs.ids],
        "score": np.concatenate([score_P.astype(np.float64) for score_P in scores.values()]),
        "gold": np.tile(pairs.gold.astype(np.float64), len(scores)),
    }


def evaluated_columns(checkpoint_hash: str, evaluation: EvaluationSpec, num_rows: int) -> Columns:
    """What every row of an encoding says: which checkpoint and data it is of."""
    data = evaluation.data
    return {
        "checkpoint_hash": _constant(checkpoint_hash, num_rows),
        "data_set": _constant(data.name, num_rows),
        "data_hash": _constant(data.content_hash, num_rows),
        "split": _constant(data.split, num_rows),
    }


def _constant(value: str | None, num_rows: int) -> pa.ChunkedArray:
    """One value in each row; whatever their number, one chunk's memory: two hashes in each would be most of a row."""
    chunk = pa.repeat(pa.scalar(value, pa.string()), min(num_rows, _ROWS_A_CHUNK))
    whole, rest = divmod(num_rows, _ROWS_A_CHUNK)
    return pa.chunked_array([chunk] * whole + [chunk.slice(0, rest)], pa.string())
