"""What a table is: typed columns over a frame of raw values, notes for the reader, and the holes it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from results.references import Reference
from results.statistics.corrections import Correction
from results.statistics.paired_tests import PairedTest
from results.statistics.ranks import PostHoc

Kind = Literal[
    "text",
    "count",
    "score",
    "points",
    "percent",
    "p",
    "plain",
    "range",
    "interval",
    "points_interval",
    "pair",
    "share_pair",
    "score_pair",
]


Data = Literal["group", "data set", "listed", "groups", "none"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What the numbers of a row are made from, as names of columns of `Table.rows`.

    Attributes:
        trials: columns of trial ids, with spaces or semicolons between them.
        probes: columns of probe ids.
        data: the evaluations behind them: those of the row's 'group', of its 'data set', of the data sets 'listed' in
            column `data_sets`, of all the 'groups' that claims are about, or 'none'.
        published: what others published: nothing of this sweep is behind it.
    """

    trials: tuple[str, ...] = ("trial_ids",)
    probes: tuple[str, ...] = ()
    data: Data = "group"
    published: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """A shown column of `Table.rows`.

    `kind` says how raw values print: 'score' (0 to 1) times 100; 'points' (a difference of scores) times 100 with
    sign; 'percent' (a ratio) times 100 with sign; 'p' as it is, or '<0.001'; 'plain' as it is; 'range' and 'interval'
    as they are, from `key` to `upper`, 'points_interval' times 100 with signs; 'pair' the two of them side by side,
    'share_pair' and 'score_pair' (0 to 1) times 100.
    A `ranked` column marks the best and the second row of each block, as `Table.rank` orders them. A `detail` is left
    away where there is little room: on a terminal and in LaTeX.
    `marks` is the column with its significance marks, which LaTeX sets as superscripts. `origin` is that of the column
    where it is not the table's. `reason` is the column that says why its number is absent, where that is not the one of
    its own name ('gain_reason' of 'gain' and 'gain_low') or the row's `reason`.
    """

    key: str
    header: str
    kind: Kind = "text"
    decimals: int = 2
    upper: str | None = None
    ranked: bool = False
    detail: bool = False
    marks: str | None = None
    origin: Origin | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table ready to be rendered. `rows` may have more columns than are shown: the CSV file has them all.

    `block` names columns of `rows`: where one changes, a new block begins. `rank` is the column that orders a block's
    rows (1 is best, empty does not compete). `holes` lists what should be there and is not, one line each.
    `formula` says how its numbers are computed, in a line; `origin` from what.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: pl.DataFrame
    notes: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    rank: str | None = None
    holes: tuple[str, ...] = ()
    formula: str = ""
    origin: Origin = Origin()

    def without_details(self) -> "Table":
        """The table as it is shown where there is little room."""
        return replace(self, columns=tuple(column for column in self.columns if not column.detail))


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a table is asked for.

    Attributes:
        baseline: of gains.
        where: which trials, column to value.
        pool: whether training data sets may be averaged.
        correction: of all p values of a table.
        paired_test: of the per query test for 'these seeds only'.
        post_hoc: of all pairs of similarities ranked over data sets.
        references: external numbers that stand beside ours.
    """

    baseline: str = "cosine"
    where: Mapping[str, str] = field(default_factory=dict)
    pool: bool = False
    correction: Correction = "holm"
    paired_test: PairedTest = "t"
    post_hoc: PostHoc = "holm"
    references: tuple[Reference, ...] = ()


class TableHasHolesError(ValueError):
    """A table with holes was to be shown as if it were whole. Lists every hole."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.holes = table.holes
        listed = "\n".join(f"  {hole}" for hole in self.holes)
        super().__init__(
            f"table '{table.name}' is not whole, {len(self.holes)} missing:\n{listed}\n"
            "run the sweep again, or show it with dashes (--allow-missing)"
        )
