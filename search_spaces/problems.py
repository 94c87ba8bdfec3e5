"""Problems of a user's input: one line each, collected, raised together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of an input: the file it stands in, the key (dotted, with indices), and what is wrong."""

    where: str
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.key}" if self.key else self.where
        return f"{place}: {self.message}"


class InputError(ValueError):
    """A user's input cannot be used. Carries every problem found, and ends a command with exit code 2."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnreadableError(ValueError):
    """What a sweep folder holds is damaged, or another version of densesweep wrote it: one line. Exit code 2."""


def fault_of(detail: "ErrorDetails") -> str:
    """What pydantic found wrong with one value, in our words where a check of ours refused it."""
    if detail["type"] in ("value_error", "assertion_error"):
        return str(detail["ctx"]["error"])
    return f"{detail['input']!r}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def unknown_name(kind: str, name: str, allowed: Sequence[str]) -> str:
    """Say that `name` is no `kind`, with the nearest allowed name, or all of them where none is near."""
    near = near_name(name, allowed)
    hint = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(allowed)) or 'none'}"
    article = "an" if kind[0] in "aeiou" else "a"
    return f"'{name}' is not {article} {kind} ({hint})"


def near_name(name: str, allowed: Sequence[str]) -> str | None:
    """The allowed name that is most like it, if one is near."""
    return next(iter(get_close_matches(name, allowed, n=1)), None)
