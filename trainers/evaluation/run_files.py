"""TREC run files: rankings as trec_eval, ir-measures and other tools read them. Imports no torch.

Shapes: Q queries, K results, N documents of the corpus.
"""

import gzip
import io
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainers.arrays import Indices, Scores
from trainers.data_sets.collection import strings
from trainers.evaluation.ranked_ids import ranked_ids

_NO_WORD = r"^$|[\x09-\x0d\x1c-\x20\x{85}\p{Z}]"  # what `str.split` parts words at
_SMALLEST_STEP = np.float32(2.0**-100)  # no reader takes two scores so far apart for equal, or for zero


def packed_run(
    *,
    query_ids: Sequence[str],
    document_ids: pa.Array | pa.ChunkedArray,
    document_QK: Indices,
    score_QK: Scores,
    tag: str,
) -> bytes:
    """Rankings as six columns (query, Q0, document, rank from 1, score, tag), packed: the same ones are the same bytes.

    Scores that are equal are written apart by their last digits, in the order of the ranking: tools break ties in
    different ways, and this one has done so before the cut to k. Every reader then finds the same numbers.

    Args:
        query_ids: Q ids.
        document_ids: N ids.
        document_QK: positions in the corpus, best first; -1 where there is no document.
        score_QK: float32, never rising.
        tag: the name of the run.

    Raises:
        ValueError: an id or the tag is empty or holds white space, which parts the columns.
    """
    packed = io.BytesIO()
    lines = _lines(query_ids, document_ids, document_QK, strictly_decreasing(score_QK), tag)
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as file:
        file.writelines(line.encode() for line in lines)
    return packed.getvalue()


def unwritable_id(ids: pa.Array | pa.ChunkedArray) -> str | None:
    """One of these ids that cannot stand in a run file, since it is empty or holds white space; None where all can."""
    broken = ids.filter(pc.match_substring_regex(ids, _NO_WORD))
    return strings(broken)[0] if len(broken) else None


def _lines(
    query_ids: Sequence[str],
    document_ids: pa.Array | pa.ChunkedArray,
    document_QK: Indices,
    score_QK: Scores,
    tag: str,
) -> Iterator[str]:
    """The lines of a run file, those of one query after the other."""
    _check_word("tag", tag)
    found = ranked_ids(document_ids, document_QK)
    for query_id, ids, document_K, score_K in zip(query_ids, found, document_QK, score_QK, strict=True):
        _check_word("query id", query_id)
        scores = score_K[document_K >= 0].tolist()
        for rank, (document_id, score) in enumerate(zip(ids, scores, strict=True), start=1):
            _check_word("document id", document_id)
            yield f"{query_id} Q0 {document_id} {rank} {score:.9g} {tag}\n"  # nine digits tell all float32 apart


def strictly_decreasing(score_QK: Scores) -> Scores:
    """Scores of which each is lower than the one before by at least a float32's last digit, else as they were.

    Raises:
        ValueError: a score is higher than the one before.
    """
    apart_QK = score_QK.copy()
    with np.errstate(invalid="ignore"):  # -inf, where there is no document
        if (score_QK[:, 1:] > score_QK[:, :-1]).any():
            raise ValueError("the scores of a ranking rise; they must fall from the best document on")
        for place in range(1, score_QK.shape[1]):
            before_Q = apart_QK[:, place - 1]
            step_Q = np.maximum(np.spacing(np.abs(before_Q)), _SMALLEST_STEP)
            apart_QK[:, place] = np.fmin(apart_QK[:, place], before_Q - step_Q)
    return apart_QK


def _check_word(what: str, word: str) -> None:
    if word.split() != [word]:
        raise ValueError(f"the {what} {word!r} cannot stand in a TREC run file: it is empty or holds white space")
