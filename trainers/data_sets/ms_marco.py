"""Reader of microsoft/ms_marco: queries with the passages that a search engine found, some of them selected.

A positive is a passage that the person who answered selected; the query's other passages are its hard negatives. They
are no judgements: nobody said that they do not answer.
"""

from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingCollection
from trainers.data_sets.hub_files import config_of, data_folder, inputs_of, parquet_rows, parquet_shards
from trainers.data_sets.json_lines import checked_text, shown

VERSION = 1
_COLUMNS = ("query_id", "query", "passages")
_SELECTED, _TEXTS = "is_selected", "passage_text"


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    return inputs_of(entry, [f"{config_of(entry)}/*.parquet"])


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read all splits of the config. Documents are the passages of all queries, equal texts once.

    Queries without a selected passage, without text, and passages without text are left out and counted.

    Raises:
        InputError: the files are not to be had, or have other columns.
    """
    config = config_of(entry)
    folder = data_folder(entry, [f"{config}/*.parquet"]) / config
    growing = GrowingCollection()
    for split, files in parquet_shards(entry, folder).items():
        for file in files:
            for number, row in parquet_rows(entry, file, _COLUMNS):
                try:
                    _add_row(split, row, growing, faults)
                except ValueError as error:
                    faults.add("malformed", file=f"{config}/{file.name}", key=f"row {number}", message=str(error))
    return growing.finished(entry.name, faults.leave_out)


def _add_row(split: str, row: dict[str, Any], growing: GrowingCollection, faults: Faults) -> None:
    query = checked_text(row["query"], "query")
    passages = _passages(row["passages"])
    there = [(text, selected) for text, selected in passages if text.strip()]
    faults.leave_out(f"passages of '{split}' without text", len(passages) - len(there))
    documents = [(growing.add_document("", text), selected) for text, selected in there]
    if not query.strip():
        faults.leave_out(f"queries of '{split}' without text")
    elif not any(selected for _, selected in documents):
        faults.leave_out(f"queries of '{split}' without a selected passage")
    else:
        query_id = growing.add_query(query, str(row["query_id"]))
        for document_id, selected in documents:
            add = growing.add_pair if selected else growing.add_negative
            add(split, query_id, document_id)


def _passages(value: Any) -> list[tuple[str, bool]]:
    """The passages of a row, and whether each was selected. Raises ValueError."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in (_SELECTED, _TEXTS)):
        raise ValueError(f"'passages' must hold the lists {_SELECTED} and {_TEXTS}, not {shown(value)}")
    selected, texts = value[_SELECTED], value[_TEXTS]
    if len(selected) != len(texts):
        raise ValueError(f"{len(texts)} passages, but {len(selected)} numbers in {_SELECTED}")
    if not all(number in (0, 1) for number in selected):
        raise ValueError(f"'{_SELECTED}' must hold 0 and 1, not {shown(selected)}")
    return [(checked_text(text, _TEXTS), number == 1) for text, number in zip(texts, selected, strict=True)]
