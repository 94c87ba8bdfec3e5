"""A checkpoint on a data set: encode once, search under every score similarity, measure, write rows.

Ranking depends on gamma_d alone (the query's norm scales all of its scores alike), so similarities that share it share
one search and one ranking: dot and qnorm, cosine and dnorm.

Shapes: Q queries, D documents of a block, K results, H embedding size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from results.layout import norm_rows, per_query_rows
from results.rows import write_rows
from results.store import Store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import EvaluationSpec, SimilaritySpec
from trainers.data_sets import Collection, document_text
from trainers.data_sets.collection import strings
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.encoders.encode import Progress, encode
from trainers.encoders.encoder import Encoder
from trainers.evaluation.evaluate_sts import evaluate_sts
from trainers.evaluation.evaluation_rows import norm_columns, per_query_columns
from trainers.evaluation.judged_queries import JudgedQueries, load_evaluated, split_queries
from trainers.evaluation.measures import QueryValue, depth, per_query
from trainers.provenance import provenance
from trainers.search import BLOCK_DOCUMENTS, Rankings, Searcher, fastest_backend, tie_ranks

FloatMatrix = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What one encoding gave: the ranking under each gamma_d, and the norms of all texts."""

    rankings: Mapping[float, Rankings]
    query_norm_Q: FloatMatrix
    document_norm_N: FloatMatrix


def evaluate(
    folder: Path,
    evaluation: EvaluationSpec,
    similarities: Sequence[SimilaritySpec],
    *,
    store: Store,
    encoder: Encoder | None = None,
    verify: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
) -> None:
    """Encode one data set with the checkpoint in `folder`; write norms, then the rows of each score similarity.

    A data set of scored pairs goes to `trainers.evaluation.evaluate_sts`.

    Args:
        folder: the checkpoint.
        evaluation: what to evaluate on, with its content hash.
        similarities: what to score with, as `missing_evaluations` names them; without any, nothing is done.
        store: where rows are written.
        encoder: the checkpoint's encoder where the caller has it loaded, on the device that is to encode.
        verify: called before each write; raises LostLockError where nothing may be written any more.
        progress: told how many more texts are encoded.

    Raises:
        InputError: the data set or the checkpoint cannot be read.
        ValueError: embeddings are not finite, or the data set's content is not what was planned.
    """
    if not similarities:
        return
    if evaluation.data.entry.is_scored:
        evaluate_sts(folder, evaluation, similarities, store=store, encoder=encoder, verify=verify, progress=progress)
        return
    collection = load_evaluated(evaluation)
    queries = split_queries(collection, evaluation.data.split, evaluation.data.entry.exclusion)
    gammas_d = list(dict.fromkeys(similarity.gamma_d for similarity in similarities))
    encoder = encoder or load_checkpoint(folder).encoder
    found = search_collection(encoder, collection, queries, gammas_d, evaluation=evaluation, progress=progress)
    checkpoint = checkpoint_hash(folder)
    norms = norm_columns(
        checkpoint,
        evaluation,
        query_ids=queries.ids,
        query_norm_Q=found.query_norm_Q,
        document_ids=collection.corpus["id"],
        document_norm_N=found.document_norm_N,
    )
    values = {gamma_d: query_values(found.rankings[gamma_d], collection, queries, evaluation) for gamma_d in gammas_d}
    made_by = provenance().to_json()
    verify()
    write_rows(store, norm_rows(encoding_id(checkpoint, evaluation)), "norms", norms, provenance_json=made_by)
    for similarity in similarities:
        rows = per_query_columns(checkpoint, evaluation, similarity, values[similarity.gamma_d])
        key = per_query_rows(evaluation_id(checkpoint, evaluation, similarity))
        verify()
        write_rows(store, key, "per_query", rows, provenance_json=made_by)


def search_collection(
    encoder: Encoder,
    collection: Collection,
    queries: JudgedQueries,
    gammas_d: Sequence[float],
    *,
    evaluation: EvaluationSpec,
    progress: Progress | None = None,
) -> Evaluated:
    """Encode queries and corpus once, and rank under each gamma_d while the blocks of the corpus go by.

    Memory holds one block of embeddings, whatever the corpus; the depth is what the data set's measures look at.
    """
    precision, k = evaluation.precision, depth(evaluation.data.entry.measures)
    query_QH = encode(encoder, queries.texts, "query", precision=precision, progress=progress)
    tie_rank_N = tie_ranks(collection.corpus["id"])
    searcher = Searcher(
        query_QH,
        k,
        tie_rank_N=tie_rank_N,
        gammas_d=gammas_d,
        excluded=queries.excluded,
        backend=fastest_backend(next(encoder.parameters()).device.type),
    )
    document_norms = [np.empty(0, dtype=np.float32)]
    for start in range(0, collection.corpus.num_rows, BLOCK_DOCUMENTS):
        texts = _document_texts(collection.corpus.slice(start, BLOCK_DOCUMENTS))
        document_DH = encode(encoder, texts, "document", precision=precision, progress=progress)
        document_norms.append(_norms(document_DH))
        searcher.add(document_DH)
    return Evaluated(
        rankings=searcher.rankings(),
        query_norm_Q=_norms(query_QH),
        document_norm_N=np.concatenate(document_norms),
    )


def _document_texts(rows: pa.Table) -> list[str]:
    return list(map(document_text, strings(rows["title"]), strings(rows["text"])))


def _norms(vectors: FloatMatrix) -> FloatMatrix:
    norms: FloatMatrix = np.linalg.norm(vectors.astype(np.float64), axis=1).astype(np.float32)
    return norms


def query_values(
    rankings: Rankings, collection: Collection, queries: JudgedQueries, evaluation: EvaluationSpec
) -> list[QueryValue]:
    """The data set's measures of each query's ranking."""
    entry = evaluation.data.entry
    document_ids = collection.corpus["id"]
    ranked = {}
    for query_id, positions_K in zip(queries.ids, rankings.document_QK, strict=True):
        ranked[query_id] = strings(document_ids.take(pa.array(positions_K[positions_K >= 0])))
    return per_query(ranked, queries.qrels, entry.measures, relevance_threshold=entry.relevance_threshold)
