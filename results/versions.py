"""Package versions: rows that were made with different ones are comparable only with care."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Made:
    """A trial, evaluation or probe, and what it was made with.

    `provenance_json` is an object with `python` and `packages`, which maps names to versions; `trial_id` is that of the
    trial, evaluated trial or probe.
    """

    kind: str
    title: str
    provenance_json: str
    trial_id: str


def mixed_versions(made: Iterable[Made]) -> Iterator[str]:
    """One line for each package of which more than one version was used.

    An evaluation counts only where it is not as some trial was: there are many of them.
    """
    every = list(made)
    of_trials = {item.provenance_json for item in every if item.kind == "trial"}
    counted = [item for item in every if item.kind != "evaluation" or item.provenance_json not in of_trials]
    for package, found in mixed(counted):
        shares = "; ".join(f"{version} in {_few(items)}" for version, items in found.items())
        yield f"the rows were made with different versions of {package}: {shares}"


def mixed(made: Iterable[Made]) -> Iterator[tuple[str, dict[str, list[Made]]]]:
    """Each package of which more than one version was used, with what each version made, the most used one first."""
    alike: dict[str, list[Made]] = {}
    for item in made:
        alike.setdefault(item.provenance_json, []).append(item)
    seen: dict[str, dict[str, list[Made]]] = {}
    for text, items in alike.items():
        provenance = json.loads(text)
        versions = {"python": provenance.get("python", "unknown"), **provenance.get("packages", {})}
        for package, version in versions.items():
            seen.setdefault(package, {}).setdefault(version, []).extend(items)
    for package, found in sorted(seen.items()):
        if len(found) > 1:
            yield package, dict(sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0])))


def _few(items: Sequence[Made]) -> str:
    if len(items) <= 2:
        return " and ".join(item.title for item in items)
    counts = Counter(item.kind for item in items)
    return ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in counts.items())
