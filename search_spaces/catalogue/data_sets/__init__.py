"""The data sets: one entry each, in a module for each kind of collection."""

from search_spaces.catalogue.data_sets import embedded
from search_spaces.catalogue.data_sets.entry import (
    Counts,
    Cut,
    DataSet,
    Exclusion,
    Reader,
    ReferenceFigure,
    SplitCounts,
)
from search_spaces.catalogue.registry import Registry

__all__ = ["DATA_SETS", "Counts", "Cut", "DataSet", "Exclusion", "Reader", "ReferenceFigure", "SplitCounts"]

DATA_SETS = Registry("data set", [*embedded.ENTRIES])
