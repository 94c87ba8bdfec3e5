"""Package versions: rows that were made with different ones are comparable only with care."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Made:
    """A trial, evaluation or probe, and what it was made with.

    `provenance_json` is an object with `python` and `packages`, which maps names to versions.
    """

    kind: str
    title: str
    provenance_json: str


def mixed_versions(made: Iterable[Made]) -> Iterator[str]:
    """One line for each package of which more than one version was used."""
    seen: dict[str, dict[str, list[Made]]] = {}
    for item in made:
        provenance = json.loads(item.provenance_json)
        versions = {"python": provenance.get("python", "unknown"), **provenance.get("packages", {})}
        for package, version in versions.items():
            seen.setdefault(package, {}).setdefault(version, []).append(item)
    for package, found in sorted(seen.items()):
        if len(found) > 1:
            most_first = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
            shares = "; ".join(f"{version} in {_few(items)}" for version, items in most_first)
            yield f"the rows were made with different versions of {package}: {shares}"


def _few(items: Sequence[Made]) -> str:
    if len(items) <= 2:
        return " and ".join(item.title for item in items)
    counts = Counter(item.kind for item in items)
    return ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in counts.items())
