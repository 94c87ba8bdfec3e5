"""The order by which what a pass leaves behind counts: rows of queries and documents. Imports no torch.

A content hash says which rows a collection has, in whatever order; rankings, snapshots and shards name rows by number.
So a collection that was built anew in another order, here or where a helper runs, is another one to them.

Shapes: Q queries, N documents.
"""

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from trainers.data_sets.collection import strings
from trainers.evaluation.text_hashes import Hashes

FORMAT_VERSION = 1  # raise it when snapshots, kept rankings or what helpers hand in come to mean something else
_ROWS_AT_ONCE = 65_536


def order_digest(query_ids: Sequence[str], document_ids: pa.ChunkedArray, hash_N2: Hashes) -> str:
    """SHA-256 (hex) over the ids of queries and documents, and the documents' text hashes, in their order."""
    digest = hashlib.sha256(
        f"format {FORMAT_VERSION}, {len(query_ids)} queries, {len(document_ids)} documents".encode()
    )
    _add_ids(digest, pa.chunked_array([pa.array(query_ids, pa.string())]))
    _add_ids(digest, document_ids)
    for start in range(0, len(hash_N2), _ROWS_AT_ONCE):
        digest.update(hash_N2[start : start + _ROWS_AT_ONCE].astype("<u8").tobytes())
    return digest.hexdigest()


def _add_ids(digest: "hashlib._Hash", ids: pa.ChunkedArray) -> None:
    """Lengths, then the ids: no two different lists give the same bytes."""
    for start in range(0, len(ids), _ROWS_AT_ONCE):
        some = ids.slice(start, _ROWS_AT_ONCE)
        digest.update(pc.binary_length(some).to_numpy().astype("<i4").tobytes())
        digest.update("".join(strings(some)).encode())
