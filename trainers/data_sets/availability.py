"""What of a data set is on this machine: built, fetched or missing. Fetches nothing and builds nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from search_spaces.catalogue.data_sets import DataSet, Reader
from search_spaces.catalogue.sources import parse_source
from search_spaces.problems import InputError
from trainers.data_sets import beir, bright, hub_retrieval, multi_hop, open_qa, tevatron
from trainers.data_sets.hub_files import at, cached_commit, config_of, is_hub
from trainers.data_sets.hub_layout import CARD, role_patterns
from trainers.data_sets.location import locate_file_or_folder
from trainers.data_sets.stored import built_folder

State = Literal["built", "fetched", "missing"]
Alternatives = Sequence[str]  # patterns of files, one of which is enough


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Where a data set stands, and what there is of it.

    `built`: it is used as it is, without the hub. `fetched`: its files are here, and are built at the first use.
    `missing`: files are not here, which `lacking` names (patterns, or what is wrong with a local source).
    """

    state: State
    bytes_here: int
    lacking: tuple[str, ...] = ()


def availability(entry: DataSet) -> Availability:
    """Where the entry stands on this machine."""
    files, lacking = _local(entry) if not is_hub(entry) else _cached(entry)
    if not lacking and (folder := built_folder(entry)):
        return Availability(state="built", bytes_here=_num_bytes([*files, *folder.iterdir()]))
    return Availability(state="missing" if lacking else "fetched", bytes_here=_num_bytes(files), lacking=tuple(lacking))


def _local(entry: DataSet) -> tuple[list[Path], list[str]]:
    if parse_source(entry.source).scheme == "python":
        return [], []
    try:
        place = locate_file_or_folder(entry)
    except InputError as error:
        return [], [problem.message for problem in error.problems]
    if entry.reader == "beir":
        return beir.files(place), []
    return [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()], []


def _cached(entry: DataSet) -> tuple[list[Path], list[str]]:
    """The cached files, and for each kind that no file is there of, its patterns."""
    files, lacking = [], []
    for source, kinds in _needed(entry).items():
        folder = snapshot_folder(source)
        for patterns in kinds:
            found = [file for pattern in patterns for file in folder.glob(pattern) if file.is_file()] if folder else []
            files += found
            lacking += [] if found else [f"{source}: {' or '.join(patterns)}"]
    return list(dict.fromkeys(files)), lacking


def snapshot_folder(source: str) -> Path | None:
    """Where the cache has a hub data set's revision, or None."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    parsed = parse_source(source)
    commit = parsed.revision or cached_commit(parsed)
    folder = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=parsed.location, repo_type="dataset")
    return folder / "snapshots" / commit if commit and (folder / "snapshots" / commit).is_dir() else None


def _needed(entry: DataSet) -> dict[str, list[Alternatives]]:
    """By source, each kind of files that the entry's reader needs there."""
    needed: dict[str, list[Alternatives]] = {k: list(v) for k, v in _NEEDED[entry.reader](entry).items()}
    if entry.answers and entry.reader == "hub_retrieval":
        needed.setdefault(entry.answers.source, []).append([entry.answers.file])
    return needed


def _of_roles(entry: DataSet) -> dict[str, list[Alternatives]]:
    needed: dict[str, list[Alternatives]] = {}
    for source, roles in hub_retrieval.parts(entry).items():
        folder = snapshot_folder(source) if is_hub(at(entry, source)) else None
        needed[source] = [role_patterns(folder or Path(), entry.config, [role]) for role in roles]
    return needed


def _of_pairs(entry: DataSet) -> dict[str, list[Alternatives]]:
    config = config_of(entry)
    return {entry.source: [["**/*.*"] if config == "default" else [f"{config}/*"]]}


_NEEDED: Mapping[Reader, Callable[[DataSet], Mapping[str, Sequence[Alternatives]]]] = {
    "hub_retrieval": _of_roles,
    "bright": lambda entry: {entry.source: [[pattern] for pattern in bright.patterns(entry)]},
    "multi_hop": lambda entry: {entry.source: [multi_hop.patterns(entry)]},
    "open_qa": open_qa.kinds,
    "ms_marco": lambda entry: {entry.source: [[f"{config_of(entry)}/*.parquet"]]},
    "tevatron": lambda entry: {entry.source: [tevatron.PATTERNS]},
    "sts": _of_pairs,
}


def _num_bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.name != CARD)
