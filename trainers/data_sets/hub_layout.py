"""Which files of a data set repository hold its corpus, its queries and its judgements: by its card, or by their names.

The card (README.md) of a repository says in its YAML header which files belong to which config and split. Retrieval
collections have one config for each role: `corpus`, `queries` and, for the judgements, `default` or `qrels`. A
repository without such a header has them by name: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv or, of judgements that
have a repository of their own, SPLIT.tsv.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.hub_files import data_folder, problem, remedy

Role = Literal["corpus", "queries", "qrels"]
CARD = "README.md"
_CONFIGS: Mapping[Role, Sequence[str]] = {
    "corpus": ("corpus",),
    "queries": ("queries", "query"),
    "qrels": ("default", "qrels"),
}
_BY_NAME: Mapping[Role, Sequence[str]] = {
    "corpus": ("corpus.*", "corpus/*"),
    "queries": ("queries.*", "queries/*"),
    "qrels": ("qrels/*", "*.tsv"),
}
_HEADER = re.compile(r"\A---\s*\n(.*?)\n---\s*(\n|\Z)", re.DOTALL)
_DATA_FILE = re.compile(r"(?P<split>[^/]*?)(-\d{5}-of-\d{5}(-[0-9a-f]+)?)?\.(jsonl|tsv|txt|parquet)(\.gz)?")


def role_files(entry: DataSet, role: Role) -> dict[str, list[Path]]:
    """The files of a role by split, in order; fetched now if they are not there.

    Raises:
        InputError: the repository cannot be had, or has no file of that role.
    """
    folder = data_folder(entry, [CARD], told=())  # which files are needed only the card says
    by_split = _patterns(folder, entry.config, role)
    data_folder(entry, [CARD, *(pattern for patterns in by_split.values() for pattern in patterns)])
    found: dict[str, list[Path]] = {}
    for split, patterns in by_split.items():
        for file in _data_files(folder, patterns) if split else _by_name(folder, patterns):
            found.setdefault(split or split_of(file), []).append(file)
    if not found:
        tried = ", ".join(pattern for patterns in by_split.values() for pattern in patterns)
        raise problem(entry, f"{folder} has no {role} (looked for {tried}); {remedy(entry)}")
    return found


def role_patterns(folder: Path, config: str | None, roles: Iterable[Role]) -> list[str]:
    """The patterns of all files of the roles, for a folder that has the card or is a copy without one."""
    return [pattern for role in roles for patterns in _patterns(folder, config, role).values() for pattern in patterns]


def split_of(file: Path) -> str:
    """The split that a file's name says: 'test' of test.tsv, test-00000-of-00001.parquet or test.jsonl.gz."""
    found = _DATA_FILE.fullmatch(file.name)
    return found["split"] if found else file.name.partition(".")[0]


def _patterns(folder: Path, config: str | None, role: Role) -> dict[str, list[str]]:
    """By split the patterns of a role; under '' those of files whose names say the split."""
    prefix = f"{config}-" if config not in (None, "default") else ""
    declared = _declared(folder / CARD)
    for name in _CONFIGS[role]:
        if patterns := declared.get(f"{prefix}{name}" if prefix else name):
            return patterns
    return {"": list(_BY_NAME[role])}


def _declared(card: Path) -> dict[str, dict[str, list[str]]]:
    """By config and split the patterns that a card declares; none where it has no header, or one of another form."""
    header = _HEADER.match(card.read_text(encoding="utf-8")) if card.is_file() else None
    try:
        found: Any = yaml.safe_load(header[1]) if header else None
    except yaml.YAMLError:
        return {}
    configs = found.get("configs") if isinstance(found, dict) else None
    return {
        str(config.get("config_name", "default")): _by_split(config.get("data_files"))
        for config in (configs if isinstance(configs, list) else [])
        if isinstance(config, dict)
    }


def _by_split(data_files: Any) -> dict[str, list[str]]:
    if isinstance(data_files, str):
        return {"": [data_files]}
    rows = data_files if isinstance(data_files, list) else []
    return {str(row["split"]): _listed(row["path"]) for row in rows if isinstance(row, dict) and "path" in row}


def _listed(path: Any) -> list[str]:
    return [str(item) for item in path] if isinstance(path, list) else [str(path)]


def _by_name(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The files of the first pattern that has any: judgements beside a corpus have a folder of their own."""
    return next(filter(None, (_data_files(folder, [pattern]) for pattern in patterns)), [])


def _data_files(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found = {file for pattern in patterns for file in folder.glob(pattern) if _DATA_FILE.fullmatch(file.name)}
    return sorted(found)
