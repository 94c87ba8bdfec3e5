"""What a sweep does not get of its data, for people: what is odd in a collection, what training leaves out or fills up.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Iterable, Iterator, Mapping

from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.training.pairs import PairCounts


def collection_notes(data: Iterable[DataSpec]) -> Iterator[str]:
    """A line for each thing that is odd in a collection, but no fault: see `CollectionReport`."""
    for entry in dict.fromkeys(spec.entry for spec in data):
        for warning in data_sets.report(entry).warnings():
            yield f"data set '{entry.name}': {warning}"


def pair_notes(
    counts: Mapping[DataSpec, PairCounts], hard_negatives: Mapping[DataSpec, Iterable[int]]
) -> Iterator[str]:
    """A line for each kind of pairs and hard negatives that a training leaves out, or lacks.

    Args:
        counts: of all contrastive training data, with its hard negatives where some are asked for.
        hard_negatives: how many of each query trials ask for.
    """
    for data, found in counts.items():
        place = f"data set '{data.name}', split '{data.split}'"
        if found.num_blank:
            what = "pairs and hard negatives" if data in hard_negatives else "pairs"
            yield f"{place}: {found.num_blank:,} {what} are left out, since their query or document has no text"
        if found.num_contradicted:
            text = "hard negatives are left out, since their text is relevant to the query"
            yield f"{place}: {found.num_contradicted:,} {text}"
        if alone := found.num_without_candidates:
            what = f"every document is relevant to {alone:,} of {found.num_queries:,} queries"
            yield f"{place}: {what}, which have no negative in any batch: their loss is always 0"
        for number in hard_negatives.get(data, ()):
            if short := found.num_short(number):
                lacking = f"{short:,} of {found.num_queries:,} queries have fewer than {number} hard negatives"
                yield f"{place}: {lacking}; random documents fill them up"
