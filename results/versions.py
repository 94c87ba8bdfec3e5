"""Package versions: trials that ran with different ones are comparable only with care."""

import json
from collections.abc import Iterator, Sequence

import polars as pl


def mixed_versions(trials: pl.DataFrame) -> Iterator[str]:
    """One line for each package of which the trials used more than one version.

    `trials` has `title` and `provenance_json`, an object with `python` and `packages`, which maps names to versions.
    """
    seen: dict[str, dict[str, list[str]]] = {}
    for title, text in trials.select("title", "provenance_json").iter_rows():
        provenance = json.loads(text)
        versions = {"python": provenance.get("python", "unknown"), **provenance.get("packages", {})}
        for package, version in versions.items():
            seen.setdefault(package, {}).setdefault(version, []).append(title)
    for package, found in sorted(seen.items()):
        if len(found) > 1:
            most_first = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
            shares = "; ".join(f"{version} in {_few(titles)}" for version, titles in most_first)
            yield f"the trials ran with different versions of {package}: {shares}"


def _few(titles: Sequence[str]) -> str:
    return f"{len(titles)} trials" if len(titles) > 2 else " and ".join(titles)
