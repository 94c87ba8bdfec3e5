"""The queries of a split as evaluation takes them: texts, grades, and what each may not find. Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from search_spaces.catalogue.data_sets import Exclusion
from search_spaces.specs import EvaluationSpec
from trainers import data_sets
from trainers.data_sets import Collection
from trainers.data_sets.collection import asked_queries, strings
from trainers.data_sets.rows import places_of


@dataclass(frozen=True, kw_only=True)
class JudgedQueries:
    """The judged queries of one split, in the order of the collection.

    Attributes:
        ids: their ids.
        texts: their texts.
        excluded: for each the positions in the corpus of documents that it must not find.
        qrels: by query id the grade of each judged document; no query, where the split has no judgements.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    excluded: Sequence[Sequence[int]]
    qrels: Mapping[str, Mapping[str, int]]


def load_evaluated(evaluation: EvaluationSpec) -> Collection:
    """The collection that an evaluation names.

    Raises:
        InputError: as `data_sets.load`, or there is no such split.
        ValueError: its content is not what was planned.
    """
    entry, split = evaluation.data.entry, evaluation.data.split
    found = data_sets.fingerprint(entry, split).content_hash
    if found != evaluation.data.content_hash:
        raise ValueError(
            f"split '{split}' of data set '{entry.name}' is not the one that was planned: its content hash is {found}, "
            f"and {evaluation.data.content_hash} was planned; plan the sweep again"
        )
    return data_sets.load(entry)


def split_queries(collection: Collection, split: str, exclusion: Exclusion) -> JudgedQueries:
    """The queries that have judgements in `split`; where it has none at all, the questions with an answer."""
    qrels = collection.qrels[split]
    queries = asked_queries(collection, split)
    ids = strings(queries["id"])
    return JudgedQueries(
        ids=ids,
        texts=strings(queries["text"]),
        excluded=_positions(_excluded_ids(queries, exclusion), collection.corpus["id"]),
        qrels=_grades(ids, qrels) if qrels.num_rows else {},
    )


def _excluded_ids(queries: pa.Table, exclusion: Exclusion) -> list[list[str]]:
    if exclusion == "query_id":
        return [[query_id] for query_id in strings(queries["id"])]
    if exclusion == "excluded_ids":
        return [excluded or [] for excluded in queries["excluded_ids"].to_pylist()]
    return [[] for _ in range(len(queries))]


def _positions(ids: list[list[str]], corpus_ids: pa.ChunkedArray) -> list[list[int]]:
    """Where documents stand in the corpus; those that are not in it cannot be found anyway."""
    wanted = list({document for documents in ids for document in documents})
    places = places_of(pa.array(wanted, pa.string()), corpus_ids).tolist()
    place = {document: at for document, at in zip(wanted, places, strict=True) if at >= 0}
    return [[place[document] for document in documents if document in place] for documents in ids]


def _grades(ids: Sequence[str], qrels: pa.Table) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {query_id: {} for query_id in ids}
    for row in qrels.to_pylist():
        grades[row["query_id"]][row["document_id"]] = row["relevance"]
    return grades
