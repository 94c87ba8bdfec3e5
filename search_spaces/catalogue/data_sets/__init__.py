"""The data sets: one entry each, in a module for each kind of collection."""

from collections.abc import Mapping

from search_spaces.catalogue.data_sets import beir, bright, cqadupstack, embedded, msmarco, multi_hop, qa, sts, training
from search_spaces.catalogue.data_sets.entry import (
    SPEARMAN,
    Answers,
    Counts,
    Cut,
    DataSet,
    Exclusion,
    Reader,
    SplitCounts,
    Unknown,
)
from search_spaces.catalogue.data_sets.figures import LUCENE, Bm25, Encoder, ReferenceFigure
from search_spaces.catalogue.registry import Registry

__all__ = [
    "DATA_SETS",
    "LUCENE",
    "PARTS",
    "SPEARMAN",
    "Answers",
    "Bm25",
    "Counts",
    "Cut",
    "DataSet",
    "Encoder",
    "Exclusion",
    "Reader",
    "ReferenceFigure",
    "SplitCounts",
    "Unknown",
    "default_groups",
]

DATA_SETS = Registry(
    "data set",
    [
        *embedded.ENTRIES,
        *msmarco.ENTRIES,
        *beir.ENTRIES,
        *cqadupstack.ENTRIES,
        *bright.ENTRIES,
        *multi_hop.ENTRIES,
        *qa.ENTRIES,
        *sts.ENTRIES,
        *training.ENTRIES,
    ],
)


def _parts() -> Mapping[str, tuple[str, ...]]:
    wholes = dict.fromkeys(entry.part_of for entry in DATA_SETS.values() if entry.part_of)
    return {whole: tuple(name for name, entry in DATA_SETS.items() if entry.part_of == whole) for whole in wholes}


PARTS: Mapping[str, tuple[str, ...]] = _parts()  # by the name of a whole, such as cqadupstack, the names of its parts


def default_groups() -> dict[str, tuple[str, ...]]:
    """By default group the names of its entries, in the catalogue's order."""
    names: dict[str, list[str]] = {}
    for name, entry in DATA_SETS.items():
        for group in entry.groups:
            names.setdefault(group, []).append(name)
    return {group: tuple(of_group) for group, of_group in names.items()}
