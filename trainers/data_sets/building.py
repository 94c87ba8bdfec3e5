"""Building a collection from its source: read, check, cut, count."""

from dataclasses import replace

import pyarrow.compute as pc

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import QRELS, Collection, CollectionReport, asked_queries, check_collection
from trainers.data_sets.cut import cut_collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.location import shown_source
from trainers.data_sets.readers import READERS


def build(entry: DataSet) -> tuple[Collection, CollectionReport]:
    """Read the entry's source, check it whole, and cut it where the entry says so.

    Raises:
        InputError: every fault of the collection, or what its counts differ in from those the entry expects.
    """
    faults = Faults(shown_source(entry))
    reader = READERS[entry.reader]
    collection = reader.read(entry, faults)
    report = check_collection(collection, threshold=entry.relevance_threshold, faults=faults, absent=reader.absent)
    faults.raise_if_any()
    if entry.cut:
        collection = cut_collection(collection, entry.cut, threshold=entry.relevance_threshold)
        report = check_collection(collection, threshold=entry.relevance_threshold, faults=faults, absent=reader.absent)
    _check_counts(entry, collection, faults)
    faults.raise_if_any()
    return collection, replace(report, left_out=dict(faults.left_out))


def _check_counts(entry: DataSet, collection: Collection, faults: Faults) -> None:
    if entry.counts is None:
        return
    expected = {"documents": entry.counts.num_documents}
    found = {"documents": collection.corpus.num_rows}
    for split in entry.counts.splits:
        expected[f"queries of '{split.name}'"] = split.num_queries
        expected[f"judgements of '{split.name}'"] = split.num_judgements
        expected[f"relevant judgements of '{split.name}'"] = split.num_relevant
        found |= _found(collection, split.name)
    for what, count in expected.items():
        if count is not None and found[what] != count:
            message = (
                f"{found[what]:,} are built where the catalogue has {count:,}: the source is not the one it describes"
            )
            faults.add("count", file="", key=f"data set '{entry.name}', {what}", message=message)


def _found(collection: Collection, split: str) -> dict[str, int]:
    """What a split has, under the names that messages give it."""
    qrels = collection.qrels.get(split, QRELS.empty_table())
    return {
        f"queries of '{split}'": asked_queries(collection, split).num_rows if split in collection.qrels else 0,
        f"judgements of '{split}'": qrels.num_rows,
        f"relevant judgements of '{split}'": qrels.filter(pc.field("relevance") >= 1).num_rows,
    }
