"""Open what the results commands read: sweep folders, sweep files, collected folders and MLflow experiments."""

import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.show import open_sweep
from results.collected_folder import RECORD, CollectedRows, read_record
from results.listed import listed
from results.schemas import SchemaError
from results.sources import Source, joined
from results.store import local_folder
from search_spaces.problems import InputError, Problem, unknown_name

MLFLOW = "mlflow:"
_URI = re.compile(r"@(?=[a-z0-9+]+:/)")  # after which the tracking URI stands


def open_sources(texts: Sequence[str]) -> Source:
    """The named sources as one.

    Raises:
        InputError: one cannot be opened, or what they hold cannot stand together; every fault is named.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    for text in dict.fromkeys(texts):
        try:
            sources += _open(text)
        except InputError as error:
            problems += error.problems
    if problems or not sources:
        raise InputError(problems or [Problem(where="SOURCE", key="", message="none is named")])
    try:
        return joined(sources)
    except SchemaError as error:
        raise InputError([Problem(where=", ".join(texts), key="", message=str(error))]) from error


def split_names(arguments: Sequence[str], known: Sequence[str], kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(sources, names) of arguments that may be both: a known name is one, unless it is written as a path.

    Raises:
        InputError: no source is among them, or a name is misspelt.
    """
    names = tuple(text for text in arguments if text in known)
    sources = tuple(text for text in arguments if text not in known)
    if not sources:
        message = f"no source is named (densesweep {kind}s SOURCE... [{kind.upper()}]...)"
        raise InputError([Problem(where=f"{kind}s", key="", message=message)])
    # After a source a bare word that is no folder is a misspelt name: to say that it is no sweep folder would not help.
    wrong = [text for text in sources[1:] if text.isidentifier() and not Path(text).exists()]
    if wrong:
        raise InputError([Problem(where=f"{kind}s", key="", message=unknown_name(kind, n, known)) for n in wrong])
    return sources, names


def _open(text: str) -> list[Source]:
    if text.startswith(MLFLOW):
        return _open_mlflow(text)
    folder = local_folder(text)
    if folder is not None and (folder / RECORD).is_file():
        return [_open_collected(text, folder)]
    store, record = open_sweep(text)
    return [Source(uri=store.uri, kind="sweep folder", store=listed(store), record=record)]


def _open_collected(text: str, folder: Path) -> Source:
    try:
        record = read_record(folder)
    except (SchemaError, ValueError) as error:
        raise InputError([Problem(where=text, key="", message=str(error))]) from error
    rows = CollectedRows(folder)
    parts = tuple(
        Source(
            uri=source.uri if source.kind == "collected folder" else f"{source.uri} (collected)",
            kind="collected folder",
            store=rows,
            record=source.record,
            runs=source.runs,
            origin=source.origin,
        )
        for source in record.sources
    )
    return Source(
        uri=text,
        kind="collected folder",
        store=rows,
        record=record.record,
        parts=parts,
        findings=record.findings,
        notes=record.notes,
    )


def _open_mlflow(text: str) -> list[Source]:
    from orchestrator.mlflow_rows import mlflow_sources  # mlflow takes two seconds that folders do not spend

    experiment, *uri = _URI.split(text.removeprefix(MLFLOW), maxsplit=1)
    return mlflow_sources(experiment, uri[0] if uri else None)
