"""Values of a sweep file that would change nothing, given its others: what is written down must reach its consumer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.cells import Cell
from search_spaces.problems import Problem
from search_spaces.schema import ProbeBlock, SweepFile

_OF_BLOCKS: Mapping[str, str] = {"head_queries": "head", "weights_queries": "weights", "weights_layers": "weights"}


@dataclass(frozen=True, kw_only=True)
class _Need:
    """What a hyperparameter needs to have an effect. `remedy` is what may be done about it."""

    is_met: Callable[[Cell, SweepFile], bool]
    lacks: str
    remedy: str


def _adapts(cell: Cell, sweep: SweepFile) -> bool:
    is_searched = sweep.tune is not None and "lora_rank" in sweep.tune.spaces
    rank = cell.hyperparameters.get("lora_rank", sweep.training.lora_rank)  # type: ignore[attr-defined]
    return is_searched or rank is not None


def _trains_gammas(cell: Cell, _: SweepFile) -> bool:
    return SIMILARITIES[cell.similarity].trained


_ADAPTERS = _Need(
    is_met=_adapts, lacks="trains no adapters, since lora_rank is not given", remedy="give a lora_rank, or leave it out"
)
_GAMMAS = _Need(
    is_met=_trains_gammas,
    lacks="trains no exponents: only similarity 'learnable' has such",
    remedy="leave it out, or add that similarity",
)
_NEEDS: Mapping[str, _Need] = {"lora_alpha": _ADAPTERS, "lora_dropout": _ADAPTERS, "gamma_learning_rate": _GAMMAS}


def idle_problems(cells: Iterable[Cell], sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Hyperparameters that no cell uses, axes that would train the same again, and settings of blocks that are off.

    `cells` are those of the file, and those under the similarity of its search.
    """
    cells = list(cells)
    for name, need in _NEEDS.items():
        idle: dict[str, list[Cell]] = {}
        used: set[str] = set()
        for cell in cells:
            key = _key(name, cell, sweep)
            if key is None:
                continue
            if need.is_met(cell, sweep):
                used.add(key)
            else:
                idle.setdefault(key, []).append(cell)
        for key, found in idle.items():
            if key not in used:
                message = f"no cell uses it: each {need.lacks} ({need.remedy})"
                yield Problem(where=where, key=key, message=message)
            elif twice := _same_but_for(name, found):
                message = f"would train the same again: {_title(twice)} {need.lacks} (give it in an include block)"
                yield Problem(where=where, key=key, message=message)
    yield from _probe_problems(sweep.probe, where)


def _key(name: str, cell: Cell, sweep: SweepFile) -> str | None:
    """The place in the file that gives a hyperparameter to a cell; None where it has the default."""
    if name in cell.hyperparameters:
        return cell.keys[name]
    if sweep.tune and name in sweep.tune.spaces:
        return f"tune.spaces.{name}"
    return f"training.{name}" if getattr(sweep.training, name) is not None else None


def _same_but_for(name: str, cells: Iterable[Cell]) -> Cell | None:
    """A cell that another one equals in all but a hyperparameter of its own."""
    seen: list[Cell] = []
    for cell in cells:
        others = {key: value for key, value in cell.hyperparameters.items() if key != name}
        if name not in cell.hyperparameters:
            continue
        without = replace(cell, hyperparameters=others)
        if without in seen:
            return cell
        seen.append(without)
    return None


def _title(cell: Cell) -> str:
    return f"{cell.family.name}/{cell.init_regime}/{cell.similarity}"


def _probe_problems(probe: ProbeBlock, where: str) -> Iterator[Problem]:
    for name, block in _OF_BLOCKS.items():
        if name in probe.model_fields_set and block not in probe.blocks:
            message = f"is of block '{block}', which is not among the blocks (write blocks: [embedding, {block}])"
            yield Problem(where=where, key=f"probe.{name}", message=message)
