"""Faults of a collection's files, collected over all of them and raised together; and what was left out, counted."""

from collections import Counter
from typing import Literal

from search_spaces.problems import InputError, Problem

FaultKind = Literal["missing", "malformed", "duplicate id", "duplicate judgement", "outside the collection", "count"]
_SHOWN_PER_KIND = 20


class Faults:
    """Collects problems; of each kind the first 20 are kept and the rest are counted."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._problems: list[Problem] = []
        self._found: Counter[FaultKind] = Counter()
        self.left_out: Counter[str] = Counter()

    def add(self, kind: FaultKind, *, file: str, key: str, message: str) -> None:
        """Note a fault in `file` (relative to the collection) at `key`: a line, an id or a split."""
        self._found[kind] += 1
        if self._found[kind] <= _SHOWN_PER_KIND:
            where = f"{self.where}/{file}" if file else self.where
            self._problems.append(Problem(where=where, key=key, message=message))

    @property
    def any(self) -> bool:
        """Whether a fault was noted."""
        return bool(self._problems)

    def leave_out(self, what: str, count: int = 1) -> None:
        """Note that `count` of the source's `what` are no part of the collection, though this is no fault."""
        if count:
            self.left_out[what] += count

    def raise_if_any(self) -> None:
        """Raise InputError with all that was noted; of a kind with more than 20 faults, how many were left out."""
        if not self._problems:
            return
        left_out = [
            Problem(where=self.where, key="", message=f"and {found - _SHOWN_PER_KIND:,} more of this kind: {kind}")
            for kind, found in self._found.items()
            if found > _SHOWN_PER_KIND
        ]
        raise InputError([*self._problems, *left_out])
