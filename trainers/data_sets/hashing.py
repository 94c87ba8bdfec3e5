"""Content hashes of collections: the same for the same rows, in whatever order and wherever they lie."""

import hashlib
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trainers.data_sets.collection import Collection, asked_queries
from trainers.data_sets.rows import take_rows

_ROWS_AT_ONCE = 8192  # bounds memory: sorted rows are taken in slices


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def split_hashes(collection: Collection) -> Mapping[str, str]:
    """By split, SHA-256 (hex) over the corpus, the queries asked in the split, its qrels and its negatives.

    A split's hash stays when another split changes. Order of rows does not matter, ids and grades do.
    """
    corpus = _table_digest(collection.corpus, ["id"])
    hashes = {}
    for split, qrels in collection.qrels.items():
        queries = _table_digest(asked_queries(collection, split), ["id"])
        judgements = _table_digest(qrels, ["query_id", "document_id"])
        negatives = b""  # as long as there are none, a hash is what it was before there could be any
        if split in collection.negatives:
            negatives = _table_digest(collection.negatives[split], ["query_id", "document_id"])
        hashes[split] = hashlib.sha256(corpus + queries + judgements + negatives).hexdigest()
    return hashes


def _table_digest(table: pa.Table, order: list[str]) -> bytes:
    indices = pc.sort_indices(table, sort_keys=[(column, "ascending") for column in order]).to_numpy()
    digest = hashlib.sha256()
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        for row in take_rows(table, indices[start : start + _ROWS_AT_ONCE]).to_pylist():
            for value in row.values():
                _update(digest, value)
    return digest.digest()


def _update(digest: "hashlib._Hash", value: str | float | list[str]) -> None:
    """Each value with its length before it, so that no two different rows give the same bytes."""
    if isinstance(value, list):
        digest.update(f"[{len(value)}]".encode())
        for item in sorted(value):
            _update(digest, item)
        return
    data = str(value).encode()
    digest.update(f"{len(data)}:".encode())
    digest.update(data)
