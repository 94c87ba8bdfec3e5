"""How a trial speaks with whoever runs it: Ray's worker, or a person's shell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from search_spaces.specs import EvaluationSpec
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.training.history import Report


def _ignore(_: object) -> None:
    """Nobody asked."""


def _fail(error: Exception) -> None:
    """Nobody waits."""
    raise error


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """How a trial speaks with whoever runs it.

    Attributes:
        report: told of each optimiser step; what it raises ends the trial.
        enter_phase: told in words what the trial does next, such as 'evaluating attack'.
        verify: called before each write; raises LostLockError where this process may write no more.
        helpers: who else may encode passages for the evaluations.
        wait_for_space: called with an error that came for want of space on a disk, after which the trial goes on from
            what is in the store; raises where it is to fail instead.
        build_pools: called before evaluating, with the evaluations that lack rows, where nobody else built their pools.
    """

    report: Report = _ignore
    enter_phase: Callable[[str], None] = _ignore
    verify: Callable[[], None] = lambda: None
    helpers: Helpers = NOBODY
    wait_for_space: Callable[[Exception], None] = _fail
    build_pools: Callable[[Sequence[EvaluationSpec]], None] = _ignore
