"""The smaller version of a collection: the texts with the smallest content hashes, the same on every machine."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from search_spaces.catalogue.data_sets import Cut
from search_spaces.problems import InputError, Problem
from trainers.data_sets.collection import Collection, document_text, judged_queries, strings
from trainers.data_sets.hashing import text_hash


def cut_collection(collection: Collection, cut: Cut, *, threshold: int) -> Collection:
    """Keep in each split `cut.num_queries` queries, and `cut.num_documents` documents over all.

    Of the queries with a relevant document (graded `threshold` or higher) those with the smallest content hashes stay,
    with every document relevant to them; then the documents with the smallest content hashes fill up.
    Judgements and negatives of what did not stay are left out.

    Raises:
        InputError: the kept queries have more relevant documents than `cut.num_documents`.
    """
    query_hashes = _hashes(collection.queries, strings(collection.queries["text"]))
    qrels = {
        split: _of_first_queries(table, query_hashes, cut.num_queries, threshold)
        for split, table in collection.qrels.items()
    }
    relevant = {
        document
        for table in qrels.values()
        for document in strings(table.filter(pc.field("relevance") >= threshold)["document_id"])
    }
    if len(relevant) > cut.num_documents:
        message = f"the {cut.num_queries} queries kept of each split have {len(relevant)} relevant documents"
        raise InputError([Problem(where=collection.name, key="cut.num_documents", message=f"{message}; raise it")])
    titles, texts = strings(collection.corpus["title"]), strings(collection.corpus["text"])
    document_hashes = _hashes(collection.corpus, [document_text(*both) for both in zip(titles, texts, strict=True)])
    rest = sorted(document_hashes.keys() - relevant, key=document_hashes.__getitem__)
    kept = pa.array(sorted(relevant.union(rest[: cut.num_documents - len(relevant)])), pa.string())
    qrels = {split: table.filter(pc.is_in(table["document_id"], value_set=kept)) for split, table in qrels.items()}
    asked = pa.array(sorted({q for table in qrels.values() for q in strings(table["query_id"])}), pa.string())
    return Collection(
        name=collection.name,
        corpus=collection.corpus.filter(pc.is_in(collection.corpus["id"], value_set=kept)),
        queries=collection.queries.filter(pc.is_in(collection.queries["id"], value_set=asked)),
        qrels=qrels,
        negatives={split: _among(table, asked, kept) for split, table in collection.negatives.items()},
    )


def num_relevant_to_first(collection: Collection, split: str, num_queries: int, threshold: int) -> int:
    """How many documents are relevant to the queries of a split that a cut to `num_queries` keeps."""
    asked = judged_queries(collection.qrels[split], threshold)
    queries = collection.queries.filter(pc.is_in(collection.queries["id"], value_set=asked))
    hashes = _hashes(queries, strings(queries["text"]))
    kept = _of_first_queries(collection.qrels[split], hashes, num_queries, threshold)
    return len(kept.filter(pc.field("relevance") >= threshold)["document_id"].unique())


def _among(table: pa.Table, queries: pa.Array, documents: pa.Array) -> pa.Table:
    both = pc.and_(pc.is_in(table["query_id"], value_set=queries), pc.is_in(table["document_id"], value_set=documents))
    return table.filter(both)


def _hashes(table: pa.Table, texts: list[str]) -> dict[str, tuple[str, str]]:
    """By id, the content hash and the id, which decides between equal texts."""
    return {key: (text_hash(text), key) for key, text in zip(strings(table["id"]), texts, strict=True)}


def _of_first_queries(
    qrels: pa.Table, hashes: Mapping[str, tuple[str, str]], num_queries: int, threshold: int
) -> pa.Table:
    answered = strings(judged_queries(qrels, threshold))
    first = sorted(answered, key=hashes.__getitem__)[:num_queries]
    return qrels.filter(pc.is_in(qrels["query_id"], value_set=pa.array(first, pa.string())))
