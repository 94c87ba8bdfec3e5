"""What cells lack: checkpoints for their regime, required settings, splits to train and validate on."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.cells import axes_blocks, cells
from search_spaces.declared import Declared
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile

_REQUIRED = ("steps", "global_batch", "learning_rate")


@dataclass(frozen=True, kw_only=True)
class CellLeftOut:
    """A family under a regime whose checkpoint it does not have."""

    family: str
    init_regime: str
    reason: str

    @property
    def title(self) -> str:
        """A short name for people."""
        return f"{self.family}/{self.init_regime}"


def left_out(sweep: SweepFile, declared: Declared, where: str) -> list[tuple[Problem, CellLeftOut]]:
    """Each cell without its checkpoint, and what is said where that is a problem."""
    wanted = {cell.pair for cell in cells(sweep)}
    found = []
    for block in axes_blocks(sweep):
        for choice, (index, regime) in product(block.axes["family"], enumerate(block.axes["init_regime"])):
            if (choice.name, regime) not in wanted or declared.checkpoint(choice.name, regime):
                continue
            reason = f"'{regime}' needs a {INIT_REGIMES[regime].reads} checkpoint, and family '{choice.name}' has none"
            remedy = "declare one, exclude the cell, or write 'missing_checkpoints: leave_out'"
            problem = Problem(where=where, key=f"{block.keys['init_regime']}[{index}]", message=f"{reason} ({remedy})")
            found.append((problem, CellLeftOut(family=choice.name, init_regime=regime, reason=reason)))
    return found


def missing_settings(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Settings without a default that nothing gives; what include blocks add is of them alone."""
    tuned = sweep.tune.spaces if sweep.tune else {}
    for name in _REQUIRED:
        if getattr(sweep.training, name) is None and name not in sweep.axes.hyperparameters and name not in tuned:
            hint = "is required, and has no default (or give it as an axis under 'hyperparameters')"
            yield Problem(where=where, key=f"training.{name}", message=hint)


def dead_settings(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Values of the training block that no cell is trained with, since each cell has its own.

    Those that are searched are told with all else of the search.
    """
    searched = sweep.tune.spaces if sweep.tune else {}
    for name in sweep.axes.hyperparameters:
        if getattr(sweep.training, name) is not None and name not in searched:
            message = f"is an axis (axes.hyperparameters.{name}), so that this value would do nothing: leave it out"
            yield Problem(where=where, key=f"training.{name}", message=message)


def untrainable(sweep: SweepFile, declared: Declared, where: str) -> Iterator[Problem]:
    """Training data without a train split."""
    for block in axes_blocks(sweep):
        for index, reference in enumerate(block.axes["training_data"]):
            name, _, split = reference.partition("/")
            if not split and declared.data_sets[name].train_split is None:
                message = f"data set '{name}' names no train split (write {name}/SPLIT to train on one of its splits)"
                yield Problem(where=where, key=f"{block.keys['training_data']}[{index}]", message=message)


def unvalidatable(sweep: SweepFile, declared: Declared, where: str) -> Iterator[Problem]:
    """Data to validate on without a dev split."""
    if sweep.validation is None:
        return
    given = sweep.validation.data
    references = [given] if given else [ref for block in axes_blocks(sweep) for ref in block.axes["training_data"]]
    for reference in references:
        name, _, split = reference.partition("/")
        if not (given and split) and declared.data_sets[name].dev_split is None:
            message = f"data set '{name}' names no dev split (write data: NAME/SPLIT to validate on a split of its own)"
            yield Problem(where=where, key="validation.data", message=message)
