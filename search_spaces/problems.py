"""Problems of a user's input: one line each, collected, raised together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


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


def unknown_name(kind: str, name: str, allowed: Sequence[str]) -> str:
    """Say that `name` is no `kind`, with the nearest allowed name, or all of them where none is near."""
    near = get_close_matches(name, allowed, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(allowed)) or 'none'}"
    article = "an" if kind[0] in "aeiou" else "a"
    return f"'{name}' is not {article} {kind} ({hint})"
