"""One split of a data set, as trials, probes and evaluations name it."""

from dataclasses import dataclass, replace

from search_spaces.catalogue.data_sets import DataSet


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """One split of a data set. `content_hash` and `num_pairs` (queries with a relevant document) come from planning."""

    entry: DataSet
    split: str
    content_hash: str | None = None
    num_pairs: int | None = None

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.entry.name


def with_data_hash(data: DataSpec, *, content_hash: str, num_pairs: int) -> DataSpec:
    """The data with its content hash and number of pairs."""
    return replace(data, content_hash=content_hash, num_pairs=num_pairs)
