"""Groups of evaluations as a sweep file may write them, and the data sets that they stand for.

groups: [beir, bright]                        default groups, whole
groups: {beir: all, mine: [scifact, notes]}   the same, and a group of the file's own
groups: {forums: cqadupstack}                 a data set of several parts is all of them
"""

from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces.catalogue.data_sets import PARTS, default_groups
from search_spaces.problems import unknown_name

ALL = "all"
_FORMS = "write default groups, such as [beir, bright], or groups of your own, such as {mine: [NAME, ...]}"


def written_out(
    groups: Any, declared: Mapping[str, Sequence[str]], parts: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """The groups with a list of data sets each; what is of another form is left for the schema to refuse.

    Args:
        groups: as a sweep file has them.
        declared: by group the data sets that the file itself declares in it.
        parts: by whole the data sets that the file itself declares as parts of it.

    Raises:
        ValueError: a group without data sets is none of the catalogue's, a group stands twice or is empty, or there is
            none at all.
    """
    if isinstance(groups, str):
        groups = [groups]
    if isinstance(groups, list) and all(isinstance(name, str) for name in groups):
        if repeated := sorted({name for name in groups if groups.count(name) > 1}):
            raise ValueError(f"'{repeated[0]}' stands twice")
        groups = dict.fromkeys(groups, ALL)
    if groups is None or groups == {}:
        raise ValueError(f"there is no group to evaluate on ({_FORMS})")
    if not isinstance(groups, dict):
        raise ValueError(f"{groups!r} are no groups ({_FORMS})")
    known = {whole: (*PARTS.get(whole, ()), *(parts or {}).get(whole, ())) for whole in (*PARTS, *(parts or {}))}
    return {name: _written_out(name, value, declared, known) for name, value in groups.items()}


def named_questions(data_sets: Any) -> Any:
    """The data sets of `rag.data_sets`, default groups and data sets of several parts written out."""
    names = [data_sets] if isinstance(data_sets, str) else data_sets
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return data_sets
    known = {**default_groups(), **PARTS}
    return [data_set for name in names for data_set in known.get(name, (name,))]


def _written_out(
    name: Any, value: Any, declared: Mapping[str, Sequence[str]], parts: Mapping[str, Sequence[str]]
) -> Any:
    if value is None or value == ALL:
        known = default_groups()
        members = [*known.get(name, ()), *declared.get(name, ())]
        if not members:
            message = unknown_name("group of the catalogue", str(name), list(known))
            raise ValueError(f"{message}; name the data sets of another: {name}: [NAME, ...]")
        return members
    if value in ("", [], {}):
        raise ValueError(f"group '{name}' has no data set: name some ({name}: [NAME, ...]), or leave it out")
    if isinstance(value, str):
        return _parts(value, parts)
    if isinstance(value, list):
        return [part for item in value for part in (_parts(item, parts) if isinstance(item, str) else [item])]
    return value


def _parts(reference: str, parts: Mapping[str, Sequence[str]]) -> list[str]:
    """The reference to a data set, or those to all parts of it: 'cqadupstack/test' is that split of each."""
    name, slash, split = reference.partition("/")
    return [f"{part}{slash}{split}" for part in parts.get(name, (name,))]
