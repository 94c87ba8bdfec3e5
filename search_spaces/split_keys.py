"""Where a sweep file says which split of a data set it trains, validates or evaluates on."""

from collections.abc import Iterator, Mapping
from typing import get_args

from search_spaces.cells import cells
from search_spaces.declared import Declared, Use
from search_spaces.schema import SweepFile
from search_spaces.specs import DataSpec


def split_keys(sweep: SweepFile) -> Mapping[DataSpec, str]:
    """By split of a data set the key that asks for it.

    That is the entry in `data_sets` where it names the split of this use, else the reference.
    """
    declared = Declared.by(sweep)
    named = {entry.name: (f"data_sets[{index}]", entry.model_fields_set) for index, entry in enumerate(sweep.data_sets)}
    found: dict[DataSpec, str] = {}
    for use in get_args(Use):
        for reference, key in _references(sweep, use):
            name, _, split = reference.partition("/")
            place, fields = named.get(name, ("", frozenset()))
            own = f"{place}.{use}_split" if not split and f"{use}_split" in fields else key
            found.setdefault(declared.data(reference, use), own)
    return found


def _references(sweep: SweepFile, use: Use) -> Iterator[tuple[str, str]]:
    """(NAME or NAME/SPLIT, its key) of all that one use is made of."""
    match use:
        case "train":
            yield from ((cell.training_data, cell.keys["training_data"]) for cell in cells(sweep))
        case "dev" if sweep.validation and sweep.validation.data:
            yield sweep.validation.data, "validation.data"
        case "dev" if sweep.validation:
            for cell in cells(sweep):
                yield cell.training_data.partition("/")[0], cell.keys["training_data"]
        case "test":
            for group, references in sweep.evaluation.groups.items():
                yield from ((reference, f"evaluation.groups.{group}") for reference in references)
            rag = sweep.evaluation.rag
            yield from ((reference, "evaluation.rag.data_sets") for reference in (rag.data_sets if rag else ()))
