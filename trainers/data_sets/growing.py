"""A collection that grows row by row from pairs: texts are kept once, in Arrow memory and not as Python objects."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from trainers.data_sets.collection import CORPUS, NEGATIVES, QRELS, QUERIES, Collection, document_text
from trainers.data_sets.hashing import text_hash

_ROWS_AT_ONCE = 8192  # bounds what stands as Python objects
Row = dict[str, Any]


class GrowingTable:
    """An Arrow table that rows are appended to."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._block: list[Row] = []

    def append(self, row: Row) -> None:
        """Add a row; it becomes Arrow memory with the next full block."""
        self._block.append(row)
        if len(self._block) == _ROWS_AT_ONCE:
            self._close_block()

    def finished(self) -> pa.Table:
        """All rows."""
        self._close_block()
        return pa.Table.from_batches(self._batches, self._schema)

    def _close_block(self) -> None:
        self._batches.append(pa.RecordBatch.from_pylist(self._block, self._schema))
        self._block.clear()


class GrowingCollection:
    """Queries, documents, pairs and negatives, each kept once."""

    def __init__(self) -> None:
        self._corpus, self._queries = GrowingTable(CORPUS), GrowingTable(QUERIES)
        self._qrels: dict[str, GrowingTable] = {}
        self._negatives: dict[str, GrowingTable] = {}
        self._documents_seen: set[str] = set()
        self._queries_seen: set[str] = set()

    def add_document(self, title: str, text: str, document_id: str | None = None) -> str:
        """Add a document, if its id is new; its id, by default a hash of its text."""
        document_id = document_id or _text_id(document_text(title, text))
        if document_id not in self._documents_seen:
            self._documents_seen.add(document_id)
            self._corpus.append({"id": document_id, "title": title, "text": text})
        return document_id

    def add_query(self, text: str, query_id: str | None = None) -> str:
        """Add a query, likewise."""
        query_id = query_id or _text_id(text)
        if query_id not in self._queries_seen:
            self._queries_seen.add(query_id)
            self._queries.append({"id": query_id, "text": text, "excluded_ids": []})
        return query_id

    def has_document(self, document_id: str) -> bool:
        """Whether there is a document of this id."""
        return document_id in self._documents_seen

    def has_query(self, query_id: str) -> bool:
        """Whether there is a query of this id."""
        return query_id in self._queries_seen

    def add_pair(self, split: str, query_id: str, document_id: str) -> None:
        """Add that the document is relevant to the query, with grade 1."""
        table = self._qrels.setdefault(split, GrowingTable(QRELS))
        table.append({"query_id": query_id, "document_id": document_id, "relevance": 1})

    def add_negative(self, split: str, query_id: str, document_id: str) -> None:
        """Add a hard negative of the query."""
        table = self._negatives.setdefault(split, GrowingTable(NEGATIVES))
        table.append({"query_id": query_id, "document_id": document_id})

    def finished(self, name: str, left_out: Callable[[str, int], None]) -> Collection:
        """The collection, of repeated pairs and negatives one each; how many go is told to `left_out`."""
        return Collection(
            name=name,
            corpus=self._corpus.finished(),
            queries=self._queries.finished(),
            qrels=_each_once(self._qrels, "pairs", left_out),
            negatives=_each_once(self._negatives, "negatives", left_out),
        )


def _each_once(
    tables: Mapping[str, GrowingTable], what: str, left_out: Callable[[str, int], None]
) -> dict[str, pa.Table]:
    found = {}
    for split, growing in tables.items():
        table = growing.finished()
        # One thread, so that rows come in the order in which each came first.
        found[split] = table.group_by(table.column_names, use_threads=False).aggregate([])
        left_out(f"repeated {what} of '{split}'", table.num_rows - found[split].num_rows)
    return found


def _text_id(text: str) -> str:
    return text_hash(text)[:16]
