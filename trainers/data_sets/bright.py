"""Reader of BRIGHT: one domain's documents, and examples with the documents that answer them and those to take out.

The repository has a folder `documents` and a folder `examples`, each with one parquet file or more per domain, which
is the entry's `config`. Its judgements are the split 'test'.
"""

from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets import hub_retrieval
from trainers.data_sets.collection import CORPUS, QRELS, QUERIES, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingTable
from trainers.data_sets.hub_files import (
    config_of,
    data_folder,
    inputs_of,
    is_hub,
    parquet_rows,
    parquet_shards,
    problem,
    remedy,
)
from trainers.data_sets.json_lines import checked_text, shown
from trainers.data_sets.location import locate

VERSION = 1
_DOCUMENTS, _EXAMPLES, _SPLIT = "documents", "examples", "test"
_DOCUMENT_COLUMNS, _EXAMPLE_COLUMNS = ("id", "content"), ("id", "query", "gold_ids", "excluded_ids")
_NOTHING = "N/A"  # how the examples write that there is nothing to exclude


def patterns(entry: DataSet) -> list[str]:
    """The files of the entry's domain."""
    return [f"{kind}/{config_of(entry)}-*.parquet" for kind in (_DOCUMENTS, _EXAMPLES)]


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    return hub_retrieval.inputs(entry) if is_beir_folder(entry) else inputs_of(entry, patterns(entry))


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read the domain. Rows that cannot be read are noted in `faults`, repeated judgements left out and counted.

    `excluded_ids` of a query are taken out of its ranking before the cut. A folder in BEIR's layout is read as one.

    Raises:
        InputError: the files are not to be had, or have other columns.
    """
    if is_beir_folder(entry):
        return hub_retrieval.read(entry, faults)
    corpus, queries, qrels = GrowingTable(CORPUS), GrowingTable(QUERIES), GrowingTable(QRELS)
    for place, row in _rows(entry, _DOCUMENTS, _DOCUMENT_COLUMNS):
        try:
            texts = [checked_text(row[name], name) for name in _DOCUMENT_COLUMNS]
            corpus.append({"id": texts[0], "title": "", "text": texts[1]})
        except ValueError as error:
            faults.add("malformed", file=_DOCUMENTS, key=place, message=str(error))
    for place, row in _rows(entry, _EXAMPLES, _EXAMPLE_COLUMNS):
        try:
            _add_example(row, queries, qrels, faults)
        except ValueError as error:
            faults.add("malformed", file=_EXAMPLES, key=place, message=str(error))
    return Collection(
        name=entry.name, corpus=corpus.finished(), queries=queries.finished(), qrels={_SPLIT: qrels.finished()}
    )


def is_beir_folder(entry: DataSet) -> bool:
    """Whether the source is a local folder in BEIR's layout, instead of a copy of the repository."""
    return not is_hub(entry) and (locate(entry) / "corpus.jsonl").is_file()


def _rows(entry: DataSet, kind: str, columns: tuple[str, ...]) -> Any:
    config, folder = config_of(entry), data_folder(entry, patterns(entry)) / kind
    files = parquet_shards(entry, folder)
    if config not in files:
        domains = ", ".join(sorted(files))
        raise problem(entry, f"{folder} has no domain '{config}' (it has {domains}); {remedy(entry, patterns(entry))}")
    for file in files[config]:
        for number, row in parquet_rows(entry, file, columns):
            yield f"row {number} of {file.name}", row


def _add_example(row: dict[str, Any], queries: GrowingTable, qrels: GrowingTable, faults: Faults) -> None:
    query_id, query = checked_text(row["id"], "id"), checked_text(row["query"], "query")
    gold, excluded = _ids(row, "gold_ids"), _ids(row, "excluded_ids")
    queries.append({"id": query_id, "text": query, "excluded_ids": list(dict.fromkeys(excluded))})
    distinct = list(dict.fromkeys(gold))
    faults.leave_out("repeated judgements", len(gold) - len(distinct))
    for document_id in distinct:
        qrels.append({"query_id": query_id, "document_id": document_id, "relevance": 1})


def _ids(row: dict[str, Any], key: str) -> list[str]:
    value = [] if row[key] is None else row[key]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"'{key}' must be a list of ids (text), not {shown(value)}")
    return [item for item in value if item != _NOTHING]
