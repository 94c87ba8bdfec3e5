"""The best similarity of a cell, and whether it can be told from the second."""

from dataclasses import dataclass

from results.statistics.contrasts import paired_gain
from results.statistics.estimate import LEVEL, Estimate, Target
from results.statistics.groups import GroupScores, group_means


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The two best columns by mean score.

    Attributes:
        best: the column with the highest mean; of equal ones the first in the group's order.
        second: the next.
        lead: of `best` over `second`, with interval and p.

    A lead's two-sided p is valid although the data chose the two: the chance of calling any column the best is at most
    the level, reached where two are equal and the rest far behind (Gutmann and Maymin, Annals of Statistics 15, 1987).
    Over the cells of a table it goes through `corrections.adjust` like any other.
    """

    best: str
    second: str
    lead: Estimate


def winner_of(group: GroupScores, *, target: Target = "these data sets", level: float = LEVEL) -> Winner:
    """The best and second best of a group's columns.

    Raises:
        ValueError: fewer than two columns.
    """
    if len(group.columns) < 2:
        raise ValueError(f"group '{group.name}' has only '{', '.join(group.columns)}': a winner needs two columns")
    means = dict(zip(group.columns, group_means(group).tolist(), strict=True))
    best, second = sorted(group.columns, key=lambda column: -means[column])[:2]
    return Winner(best=best, second=second, lead=paired_gain(group, best, second, target=target, level=level))


def can_be_told(winner: Winner, adjusted_p: float | None, *, level: float = LEVEL) -> bool:
    """Whether the best is told from the second, by its adjusted p: for 'these seeds only' where the lead says so."""
    return adjusted_p is not None and adjusted_p <= 1 - level
