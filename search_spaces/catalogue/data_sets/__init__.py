"""The data sets: one entry each, in a module for each kind of collection."""

from search_spaces.catalogue.data_sets import embedded, sts, training
from search_spaces.catalogue.data_sets.entry import (
    SPEARMAN,
    Counts,
    Cut,
    DataSet,
    Exclusion,
    Reader,
    ReferenceFigure,
    SplitCounts,
)
from search_spaces.catalogue.registry import Registry

__all__ = ["DATA_SETS", "SPEARMAN", "Counts", "Cut", "DataSet", "Exclusion", "Reader", "ReferenceFigure", "SplitCounts"]

DATA_SETS = Registry("data set", [*embedded.ENTRIES, *sts.ENTRIES, *training.ENTRIES])
