"""Embeddings that stay in the sweep folder: unit directions in fp16 with float32 norms, in Parquet parts.

A direction of fp16 has no trouble with long or short vectors, and a norm beyond fp16's range survives beside it.

Shapes: D texts of a part, H embedding size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.layout import LAST_EMBEDDINGS, embedding_rows, embeddings_prefix
from results.rows import read_rows, write_rows
from results.store import Store
from search_spaces.identity import encoding_id
from search_spaces.specs import EvaluationSpec
from trainers.arrays import FloatMatrix, HalfMatrix
from trainers.data_sets.collection import strings
from trainers.encoders.encoder import Side
from trainers.evaluation.evaluation_rows import evaluated_columns
from trainers.search import Block


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptPart:
    """Some texts of one side: their ids, unit directions in fp16 [D, H] (a zero vector has none: zeros) and norms."""

    side: Side
    ids: Sequence[str]
    direction_DH: HalfMatrix
    norm_D: FloatMatrix

    def block(self, first: int) -> Block:
        """The part as documents to search, which stand from `first` on."""
        return Block(first=first, vector_DH=self.direction_DH, norm_D=self.norm_D)


def keep_part(
    store: Store,
    checkpoint_hash: str,
    evaluation: EvaluationSpec,
    part: str,
    side: Side,
    ids: pa.Array | pa.ChunkedArray,
    vector_DH: FloatMatrix,
    norm_D: FloatMatrix,
) -> None:
    """Write the raw embeddings of some texts, float32 [D, H] and [D].

    Args:
        store: the sweep folder.
        checkpoint_hash: of what encoded them.
        evaluation: for what.
        part: the name of the part.
        side: 'query' or 'document'.
        ids: D ids.
        vector_DH: the embeddings.
        norm_D: their norms.
    """
    direction_DH = (vector_DH / np.where(norm_D > 0, norm_D, 1)[:, None]).astype(np.float16)
    offsets = pa.array(range(0, direction_DH.size + 1, direction_DH.shape[1]), pa.int32())
    directions = pa.array(direction_DH.ravel(), pa.float16())
    columns = {
        **evaluated_columns(checkpoint_hash, evaluation, len(norm_D)),
        "side": pa.repeat(side, len(norm_D)),
        "text_id": ids,
        "direction": pa.ListArray.from_arrays(offsets, directions),
        "norm": norm_D,
    }
    key = embedding_rows(encoding_id(checkpoint_hash, evaluation), part)
    write_rows(store, key, "embeddings", columns)


def kept_parts(store: Store, encoding: str, side: Side) -> Iterator[KeptPart]:
    """The embeddings of one side of an encoding, a part at a time.

    Documents come in the order in which they were encoded, which need not be the corpus's; their ids say which they
    are.

    Raises:
        KeyError: they were not kept, or not all of them.
        SchemaError: another version of the row contract wrote them.
    """
    if not store.exists(embedding_rows(encoding, LAST_EMBEDDINGS)):
        raise KeyError(embedding_rows(encoding, LAST_EMBEDDINGS))
    for key in store.list(embeddings_prefix(encoding)):
        table = read_rows(store, key, "embeddings")
        if table.num_rows and table["side"][0].as_py() == side:
            flat = pc.list_flatten(table["direction"]).to_numpy()
            yield KeptPart(
                side=side,
                ids=strings(table["text_id"]),
                direction_DH=flat.reshape(table.num_rows, -1),
                norm_D=table["norm"].to_numpy(),
            )
