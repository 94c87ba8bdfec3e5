"""Data sets: collections built once from their sources, cached, and mapped into memory. Imports no framework."""

from dataclasses import dataclass

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.problems import InputError, Problem, unknown_name
from trainers.data_sets.collection import Collection, CollectionReport, document_text, judged_queries
from trainers.data_sets.location import shown_source
from trainers.data_sets.stored import read_collection, read_qrels, read_record, stored_folder

__all__ = ["Collection", "CollectionReport", "Fingerprint", "document_text", "fingerprint", "load", "report", "splits"]


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What identifies one split of a collection, and its sizes.

    `content_hash`: SHA-256 (hex) over corpus, the split's queries and its qrels, independent of order and place.
    `num_queries` are judged in the split; `num_pairs` of them have a relevant document.
    """

    content_hash: str
    num_queries: int
    num_pairs: int
    num_documents: int


def load(entry: DataSet) -> Collection:
    """The collection that `entry` names: built at the first call, then mapped from the cache folder.

    Raises:
        InputError: all faults of the source, each with its file and line or id.
    """
    return read_collection(stored_folder(entry), entry.name)


def splits(entry: DataSet) -> tuple[str, ...]:
    """The splits that a collection has. Raises as `load`."""
    return tuple(read_record(stored_folder(entry)).content_hashes)


def fingerprint(entry: DataSet, split: str) -> Fingerprint:
    """The identity and the sizes of one split; builds the collection if that was not done yet.

    Raises:
        InputError: as `load`, or there is no such split.
    """
    folder = stored_folder(entry)
    record = read_record(folder)
    if split not in record.content_hashes:
        message = unknown_name("split", split, list(record.content_hashes))
        raise InputError([Problem(where=shown_source(entry), key=f"data set '{entry.name}'", message=message)])
    qrels = read_qrels(folder, split)
    return Fingerprint(
        content_hash=record.content_hashes[split],
        num_queries=len(judged_queries(qrels)),
        num_pairs=len(judged_queries(qrels, entry.relevance_threshold)),
        num_documents=load(entry).corpus.num_rows,
    )


def report(entry: DataSet) -> CollectionReport:
    """What is odd in the collection but no fault (empty documents, queries without an answer). Raises as `load`."""
    return read_record(stored_folder(entry)).report
