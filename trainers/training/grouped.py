"""Numbers in groups of different sizes, without a Python object for each: compressed sparse rows.

Suffixes: G groups, V values of all groups.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Grouped:
    """The values of group g are `values_V[offsets[g] : offsets[g + 1]]`.

    Attributes:
        values_V: int64 [V].
        offsets: int64 [G + 1], the first 0, the last V.
    """

    values_V: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of groups G."""
        return len(self.offsets) - 1

    def __getitem__(self, group: int) -> NDArray[np.int64]:
        """The values of one group."""
        return self.values_V[self.offsets[group] : self.offsets[group + 1]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many values each group has."""
        return np.diff(self.offsets)

    def of(self, group_B: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The values of some groups, one group after the other: (place in `group_B` of each value, the values)."""
        counts_B = self.offsets[group_B + 1] - self.offsets[group_B]
        place = np.repeat(np.arange(len(group_B)), counts_B)
        return place, self.values_V[ranges(self.offsets[group_B], counts_B)]


def grouped(group_V: NDArray[np.int64], values_V: NDArray[np.int64], num_groups: int) -> Grouped:
    """Values by their group; within a group their order stays."""
    counts = np.bincount(group_V, minlength=num_groups)
    return Grouped(
        values_V=values_V[np.argsort(group_V, kind="stable")],
        offsets=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)]),
    )


def ranges(start_B: NDArray[np.int64], count_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """The whole numbers from each start on, as many as its count, one range after the other."""
    before_B = np.cumsum(count_B) - count_B
    return np.repeat(start_B - before_B, count_B) + np.arange(int(count_B.sum()))
