"""Per query rows of a whole sweep, kept small: what is the same in a whole file is kept once for it.

A row of PER_QUERY is seven texts and a number, of which only the query, the measure and the number change from row to
row of a file. Millions of rows fit into memory because those alone are kept for each, as codes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from results.bulk import Batch

OF_FILE = ("checkpoint_hash", "data_set", "data_hash", "split", "tier", "score_similarity")
_VALUES = {"block": pl.UInt32(), "query_id": pl.Categorical(), "measure": pl.Categorical(), "value": pl.Float64()}


@dataclass(frozen=True, kw_only=True)
class QueryRows:
    """Rows of the schema PER_QUERY.

    Attributes:
        blocks: OF_FILE, once for each, with its number as `block`.
        values: `block`, `query_id`, `measure` and `value`; texts as Categorical.
    """

    blocks: pl.DataFrame
    values: pl.DataFrame

    def wide(self, blocks: pl.DataFrame) -> pl.DataFrame:
        """A row for each of `blocks` (with columns of its own, one block perhaps several times) and each value."""
        texts = pl.col("query_id", "measure").cast(pl.String)
        return blocks.join(self.values.with_columns(texts), on="block", maintain_order="left_right").drop("block")


def query_rows(batches: Iterable[Batch]) -> QueryRows:
    """The rows of all batches; what two files hold of one checkpoint, data and similarity counts once."""
    blocks = [pl.DataFrame(schema={**dict.fromkeys(OF_FILE, pl.String), "block": pl.UInt32})]
    values = [pl.DataFrame(schema=_VALUES)]
    start = 0
    for batch in batches:
        # Not only where a file changes: a file of several evaluations would be read as one.
        changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("file", *OF_FILE))
        rows = batch.rows.with_columns(block=changes.cum_sum().cast(pl.UInt32) + pl.lit(start, dtype=pl.UInt32))
        texts = pl.col("query_id", "measure").cast(pl.Categorical)
        found = rows.unique("block", keep="first", maintain_order=True).select(*OF_FILE, "block")
        blocks.append(found)
        values.append(rows.with_columns(texts).select(*_VALUES))
        start += found.height
    every = pl.concat(blocks)
    once = every.unique(OF_FILE, keep="first", maintain_order=True)
    kept = pl.concat(values)
    if once.height < every.height:
        kept = kept.join(once.select("block"), on="block", how="semi", maintain_order="left")
    return QueryRows(blocks=once, values=kept)
