"""Data files of one revision of a hub data set, from the local Hugging Face cache or fetched into it.

They are read as data: no loading script runs, and nothing but the files asked for is fetched.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.sources import Source, parse_source
from search_spaces.problems import InputError, Problem
from trainers.data_sets.location import locate, stamp
from trainers.hub import is_reachable

_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")
_ROWS_AT_ONCE = 1024


def inputs_of(entry: DataSet, patterns: Sequence[str]) -> list[str]:
    """The config, and a local folder's files with sizes and times of change; a hub data set is pinned already.

    Of one that is not, the commit that the cache has, which is fetched if there is none.
    """
    config = [f"config {entry.config}"]
    if is_hub(entry):
        is_pinned = parse_source(entry.source).revision is not None
        return config if is_pinned else [*config, f"commit {data_folder(entry, patterns).name}"]
    folder = locate(entry)
    return [*config, *(stamp(file) for pattern in patterns for file in sorted(folder.glob(pattern)))]


def data_folder(entry: DataSet, patterns: Sequence[str], told: Sequence[str] | None = None) -> Path:
    """The folder that holds the files: the revision's in the cache, or a local copy of it that `path:` names.

    `told` are the patterns that the user is told to fetch where this fails, if they are others.

    Raises:
        InputError: neither the cache nor the hub has them, or there is no such folder.
    """
    return _fetched(entry, patterns, patterns if told is None else told) if is_hub(entry) else locate(entry)


def at(entry: DataSet, source: str | None) -> DataSet:
    """The entry as if its files lay at `source`, where there is one: parts of a collection may lie apart."""
    return entry.model_copy(update={"source": source}) if source else entry


def is_hub(entry: DataSet) -> bool:
    """Whether the source is on the hub."""
    return parse_source(entry.source).scheme == "hf"


def config_of(entry: DataSet) -> str:
    """The config, which a hub data set always names: its default may be another tomorrow. Raises InputError."""
    if entry.config is None:
        raise problem(entry, "it names no config (write config: NAME, as on the data set's page)")
    return entry.config


def parquet_shards(entry: DataSet, folder: Path) -> dict[str, list[Path]]:
    """The files of each split, in order.

    Raises:
        InputError: there are none, or a split lacks some.
    """
    shards: dict[str, list[Path]] = {}
    totals: dict[str, int] = {}
    for file in sorted(folder.glob("*.parquet")):
        if found := _SHARD.fullmatch(file.name):
            shards.setdefault(found["split"], []).append(file)
            totals[found["split"]] = int(found["total"])
    if not shards:
        raise problem(entry, f"{folder} has no files SPLIT-00000-of-00001.parquet; {remedy(entry)}")
    for split, files in shards.items():
        if len(files) != totals[split]:
            message = f"split '{split}' has {len(files)} of its {totals[split]} files in {folder}"
            raise problem(entry, f"{message}; {remedy(entry)}")
    return shards


def parquet_rows(entry: DataSet, file: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their numbers (from 1), some thousand in memory at a time.

    Raises:
        InputError: this is no parquet file, or a column is missing.
    """
    try:
        with pq.ParquetFile(file) as opened:
            missing = [column for column in columns if column not in opened.schema_arrow.names]
            if missing:
                there = ", ".join(opened.schema_arrow.names)
                raise problem(entry, f"{file.name} has no column {' or '.join(missing)} (it has {there})")
            number = 0
            for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=list(columns)):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowInvalid, OSError) as error:
        raise problem(entry, f"{file} cannot be read ({error}); {remedy(entry)}") from error


def problem(entry: DataSet, message: str) -> InputError:
    """What is wrong with a data set."""
    return InputError([Problem(where=entry.source, key=f"data set '{entry.name}'", message=message)])


def _fetched(entry: DataSet, patterns: Sequence[str], told: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download  # slow to import, and only hub data sets need it
    from huggingface_hub.errors import HfHubHTTPError, IncompleteSnapshotError, LocalEntryNotFoundError

    source = parse_source(entry.source)
    try:
        if source.revision is None and (cached := cached_commit(source)):
            source = replace(source, revision=cached)  # what is there once stays, though the hub's copy moves on
        folder = snapshot_download(
            source.location,
            repo_type="dataset",
            revision=source.revision,
            allow_patterns=list(patterns),
            local_files_only=not is_reachable(),
        )
    except IncompleteSnapshotError as error:
        raise problem(entry, f"its download was interrupted; {remedy(entry, told)}") from error
    except LocalEntryNotFoundError as error:
        message = "it is not in the local Hugging Face cache and the hub cannot be reached"
        raise problem(entry, f"{message}; {remedy(entry, told)}") from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise problem(entry, f"the hub did not give it: {error}") from error
    return Path(folder)


def cached_commit(source: Source) -> str | None:
    """The commit of a hub data set that the local cache takes for its main branch, or None."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=source.location, repo_type="dataset")
    commit = folder / "refs" / "main"
    return commit.read_text().strip() if commit.is_file() else None


def remedy(entry: DataSet, patterns: Sequence[str] = ()) -> str:
    """What to do to have the files."""
    source = parse_source(entry.source)
    if source.scheme != "hf":
        return "copy it again"
    revision = f" --revision {source.revision}" if source.revision else ""
    command = f"hf download --repo-type dataset {source.location}{revision}"
    include = "".join(f" --include '{pattern}'" for pattern in patterns)
    return (
        f"run `{command}{include}` where the hub can be reached, or name a copy of its files with source: path:FOLDER"
    )
