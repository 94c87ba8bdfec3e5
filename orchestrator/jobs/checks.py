"""What a sweep that is sent elsewhere cannot have: places that are relative to where it was sent from."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from results.store import OBJECT_SCHEMES, local_folder
from search_spaces.load import read_text
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile

_SQLITE = "sqlite:///"
_OF_FOLDERS = ("path:", "trial:")


def sent_storage(sweep: SweepFile, override: str | None) -> str | None:
    """The sweep folder: given on the command line, else in the file, else below the bucket of its block `cluster`."""
    root = sweep.cluster.storage.root if sweep.cluster else None
    return override or sweep.storage or (f"{root.rstrip('/')}/{sweep.name}" if root else None)


def sending_problems(sweep: SweepFile, file: Path, storage: str | None, tracking: str | None) -> Iterator[Problem]:
    """Every reason for which the sweep could not run, or not be found again, on another machine."""
    key = "storage"
    shared = "a bucket (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX), or the absolute path of a folder that all nodes share"
    if storage is None:
        yield Problem(where=str(file), key=key, message=f"is required for a sweep that is sent to a cluster: {shared}")
    elif (folder := local_folder(storage)) is None:
        if (scheme := storage.partition("://")[0]) not in OBJECT_SCHEMES:
            allowed = ", ".join(f"{name}://" for name in OBJECT_SCHEMES)
            message = (
                f"'{storage}': sweep folders are not kept on {scheme}:// (allowed: {allowed}, or an absolute path)"
            )
            yield Problem(where=str(file), key=key, message=message)
    elif not PurePosixPath(folder).is_absolute():
        message = f"'{storage}' would be a folder of the job, which ends with it (name {shared})"
        yield Problem(where=str(file), key=key, message=message)
    texts = set(_texts(yaml.safe_load(read_text(file))))
    for key, source in named_sources(sweep):
        folder = local_folder(_place(source))
        # Reading the file made most of them absolute.
        if folder is not None and (source not in texts or not PurePosixPath(folder).is_absolute()):
            message = f"{_place(source)} is written relative to this file, which travels alone (write the path that it "
            yield Problem(where=str(file), key=key, message=f"{message}has on all nodes)")
    uri = tracking or sweep.tracking.uri
    if uri and uri.startswith(_SQLITE) and not uri.startswith(f"{_SQLITE}/"):
        message = f"'{uri}' would be a file of the job, which ends with it (name a server, or an absolute path)"
        yield Problem(where=str(file), key="tracking.uri", message=message)


def named_sources(sweep: SweepFile) -> list[tuple[str, str]]:
    """Key and source of what a sweep reads of folders: data, weights, earlier sweeps."""
    named = [(f"data_sets[{i}].source", entry.source) for i, entry in enumerate(sweep.data_sets)]
    named += [(f"data_sources.{name}", source) for name, source in sweep.data_sources.items()]
    for i, family in enumerate(sweep.families):
        checkpoints = (("retriever", family.retriever), ("base", family.base))
        named += [(f"families[{i}].{role}.source", found.source) for role, found in checkpoints if found]
    if sweep.evaluation.rag:
        named.append(("evaluation.rag.reader.source", sweep.evaluation.rag.reader.source))
    named = [(key, source) for key, source in named if source.startswith(_OF_FOLDERS)]
    return named + [(f"reuse[{i}]", folder) for i, folder in enumerate(sweep.reuse)]


def needs_same_paths(sweep: SweepFile, storage: str) -> bool:
    """Whether anything it uses is a path, which is right only where every node has the same there."""
    places = [storage, *(place for _, place in named_places(sweep))]
    return any(local_folder(place) is not None for place in places)


def named_places(sweep: SweepFile) -> list[tuple[str, str]]:
    """Key and folder of `named_sources`: a path, or a place in a bucket."""
    return [(key, _place(source)) for key, source in named_sources(sweep)]


def _place(source: str) -> str:
    """The folder that a source names."""
    return source.partition(":")[2] if source.startswith(_OF_FOLDERS) else source


def _texts(value: Any) -> Iterator[str]:
    """All texts that stand in a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
