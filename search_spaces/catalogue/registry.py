"""A registry of named, final entries: a duplicate name is an error, an unknown one names its nearest match."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from search_spaces.problems import unknown_name


class Named(Protocol):
    """Anything with a printable name."""

    @property
    def name(self) -> str:
        """The registry key: lower-case, final."""


Entry = TypeVar("Entry", bound=Named)


class UnknownNameError(ValueError):
    """A name that no entry has."""


class Registry(Mapping[str, Entry]):
    """An immutable mapping of entries by name.

    Raises:
        ValueError: two entries have one name, or a name is not lower-case.
        UnknownNameError: `registry[name]` with a name that is not there.
    """

    def __init__(self, kind: str, entries: Iterable[Entry]) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            if entry.name != entry.name.lower():
                raise ValueError(f"{kind} '{entry.name}': names are lower-case, since they stand in paths")
            if entry.name in self._entries:
                raise ValueError(f"{kind} '{entry.name}' is declared twice")
            self._entries[entry.name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise UnknownNameError(unknown_name(self.kind, name, list(self._entries)))
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def extended(self, entries: Iterable[Entry]) -> "Registry[Entry]":
        """A new registry with `entries` added; none may take a name that is here already."""
        return Registry(self.kind, [*self._entries.values(), *entries])
