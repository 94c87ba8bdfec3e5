"""The ids of ranked documents, looked up for many queries at once. Imports no torch.

Shapes: Q queries, K results, N documents of the corpus.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from trainers.arrays import Indices
from trainers.data_sets.collection import strings
from trainers.data_sets.rows import take_values

_QUERIES_AT_ONCE = 512  # bounds what stands as Python objects; one by one, each would look through all chunks of ids


def ranked_ids(document_ids: pa.Array | pa.ChunkedArray, document_QK: Indices) -> Iterator[list[str]]:
    """Of each query the ids of what it found, best first.

    Args:
        document_ids: N ids.
        document_QK: positions among them; -1, where there is no document, has no id.
    """
    for start in range(0, len(document_QK), _QUERIES_AT_ONCE):
        some_QK = document_QK[start : start + _QUERIES_AT_ONCE]
        positions = np.unique(some_QK[some_QK >= 0])
        ids = strings(take_values(document_ids, positions))
        for document_K in some_QK:
            yield [ids[place] for place in np.searchsorted(positions, document_K[document_K >= 0]).tolist()]
