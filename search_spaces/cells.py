"""The cells of a sweep file: axes crossed or varied together, what is included, less what is excluded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from search_spaces.axes import AXES, ExcludeBlock
from search_spaces.blocks import FamilyChoice
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile
from search_spaces.specs import Task


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One value of each axis, and the hyperparameters that are axes too.

    `keys` are the places in the file that give them, by axis or hyperparameter: 'axes.seed', 'include[0].seed'.
    """

    keys: Mapping[str, str]
    task: Task
    training_data: str
    family: FamilyChoice
    similarity: str
    init_regime: str
    seed: int
    scale: str
    hyperparameters: Mapping[str, Any]

    @property
    def pair(self) -> tuple[str, str]:
        """Family and init regime, which decide what checkpoint it starts from."""
        return self.family.name, self.init_regime


@dataclass(frozen=True, kw_only=True)
class AxesBlock:
    """The axes block of a file, or an include block with what it takes from there. `key` is its place in the file.

    `keys` are the places of the values, by axis or hyperparameter: what an include block takes over stands under axes.
    """

    key: str
    axes: Mapping[str, tuple[Any, ...]]
    hyperparameters: Mapping[str, tuple[Any, ...]]
    keys: Mapping[str, str]

    def values(self, name: str) -> tuple[Any, ...]:
        """The values of an axis or hyperparameter, none where the block has no such hyperparameter."""
        return self.axes.get(name) or self.hyperparameters.get(name, ())


def axes_blocks(sweep: SweepFile) -> Iterator[AxesBlock]:
    """The axes block, then each include block."""
    base = {name: getattr(sweep.axes, name) for name in AXES}
    hyper = dict(sweep.axes.hyperparameters)
    keys = _places("axes", base, hyper)
    yield AxesBlock(key="axes", axes=base, hyperparameters=hyper, keys=keys)
    for index, block in enumerate(sweep.include):
        own = {name: getattr(block, name) for name in AXES if getattr(block, name) is not None}
        added: dict[str, tuple[Any, ...]] = block.hyperparameters  # type: ignore[attr-defined]
        place = f"include[{index}]"
        yield AxesBlock(
            key=place,
            axes={**base, **own},
            hyperparameters={**hyper, **added},
            keys={**keys, **_places(place, own, added)},
        )


def _places(block: str, axes: Iterable[str], hyperparameters: Iterable[str]) -> dict[str, str]:
    """By axis or hyperparameter the key of what a block itself gives."""
    return {
        **{name: f"{block}.{name}" for name in axes},
        **{name: f"{block}.hyperparameters.{name}" for name in hyperparameters},
    }


def cells(sweep: SweepFile) -> Iterator[Cell]:
    """Each combination of values, less the excluded ones; where lists of `zip` differ in length, to the shortest."""
    for cell in _all_cells(sweep):
        if not any(_matches(cell, excluded) for excluded in sweep.exclude):
            yield cell


def cell_problems(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Axes that vary together but differ in length, and blocks of `exclude` that match nothing."""
    for block in axes_blocks(sweep):
        for index, group in enumerate(sweep.zip):
            lengths = {name: len(block.values(name)) for name in group}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                key = f"zip[{index}]" if block.key == "axes" else block.key
                message = f"values that vary together are as many of each, and in {block.key} {told}"
                yield Problem(where=where, key=key, message=message)
            rows = list(zip(*(block.values(name) for name in group), strict=False))
            if twice := [row for place, row in enumerate(rows) if row in rows[:place]]:
                message = f"{', '.join(map(_text, twice[0]))} stand together twice in {block.key}"
                yield Problem(where=where, key=f"zip[{index}]", message=message)
    found = list(_all_cells(sweep)) if sweep.exclude else []
    for index, excluded in enumerate(sweep.exclude):
        if not _given(excluded):
            yield Problem(where=where, key=f"exclude[{index}]", message="names no axis, so it would exclude everything")
        elif found and not any(_matches(cell, excluded) for cell in found):
            yield Problem(where=where, key=f"exclude[{index}]", message="matches no cell of this file")


def _all_cells(sweep: SweepFile) -> Iterator[Cell]:
    for block in axes_blocks(sweep):
        values = {**block.axes, **block.hyperparameters}
        wheels = _wheels(list(values), sweep.zip)
        turns = (list(zip(*(values[name] for name in wheel), strict=False)) for wheel in wheels)
        names = [name for wheel in wheels for name in wheel]
        for combination in product(*turns):
            flat = dict(zip(names, (value for turn in combination for value in turn), strict=True))
            own = {name: flat[name] for name in block.hyperparameters}
            yield Cell(keys=block.keys, hyperparameters=own, **{name: flat[name] for name in AXES})


def _wheels(names: Sequence[str], zipped: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names in order, those that vary together as one, at the place of the first of them."""
    group_of = {name: tuple(n for n in names if n in group) for group in zipped for name in group}
    return list(dict.fromkeys(group_of.get(name, (name,)) for name in names))


def _text(value: Any) -> str:
    return value.name if isinstance(value, FamilyChoice) else str(value)


def _given(block: ExcludeBlock) -> dict[str, tuple[Any, ...]]:
    axes = {name: values for name, values in block if name != "hyperparameters" and values is not None}
    return axes | dict(block.hyperparameters)


def _matches(cell: Cell, block: ExcludeBlock) -> bool:
    given = _given(block)
    return bool(given) and all(_value(cell, name) in values for name, values in given.items())


def _value(cell: Cell, name: str) -> Any:
    if name not in AXES:
        return cell.hyperparameters.get(name)
    return cell.family.name if name == "family" else getattr(cell, name)
