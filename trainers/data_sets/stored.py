"""Built collections in the cache folder: Arrow files and what made them, published whole or not at all."""

import hashlib
import json
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import TypeAdapter

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.problems import InputError, Problem
from trainers.cache import cache_folder
from trainers.data_sets.building import build
from trainers.data_sets.collection import Collection, CollectionReport
from trainers.data_sets.hashing import split_hashes
from trainers.data_sets.readers import READERS

_LAYOUT_VERSION = 2
_RECORD = "record.json"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a stored collection was built from, and what was found while building. `content_hashes` are by split."""

    recipe: tuple[str, ...]
    content_hashes: Mapping[str, str]
    report: CollectionReport


_RECORDS = TypeAdapter(Record)


def stored_folder(entry: DataSet) -> Path:
    """The folder that holds the built collection; built now if it is not there.

    Any number of processes may ask at once: each builds apart, the first to finish publishes, the others discard.

    Raises:
        InputError: the source cannot be read or has faults, or the cache folder cannot be written.
    """
    recipe = _recipe(entry)
    folder = _place(entry, recipe)
    if not (folder / _RECORD).is_file():
        collection, report = build(entry)
        record = Record(recipe=recipe, content_hashes=split_hashes(collection), report=report)
        _publish(folder, collection, record)
    return folder


def built_folder(entry: DataSet) -> Path | None:
    """The folder of the built collection, or None where it is not built yet.

    Raises:
        InputError: what the collection depends on cannot be told, since the source is not there.
    """
    folder = _place(entry, _recipe(entry))
    return folder if (folder / _RECORD).is_file() else None


def _place(entry: DataSet, recipe: tuple[str, ...]) -> Path:
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    return cache_folder() / "data_sets" / f"{re.sub('[^a-z0-9_.-]', '_', entry.name)}-{key}"


def read_record(folder: Path) -> Record:
    """The record of a stored collection."""
    return _RECORDS.validate_json((folder / _RECORD).read_bytes())


def read_qrels(folder: Path, split: str) -> pa.Table:
    """One split's qrels of a stored collection, mapped into memory."""
    return _read_table(folder / f"qrels_{split}.arrow")


def read_collection(folder: Path, name: str) -> Collection:
    """A stored collection; its tables are mapped into memory, not read."""
    return Collection(
        name=name,
        corpus=_read_table(folder / "corpus.arrow"),
        queries=_read_table(folder / "queries.arrow"),
        qrels={split: read_qrels(folder, split) for split in read_record(folder).content_hashes},
        negatives={
            file.stem.removeprefix("negatives_"): _read_table(file) for file in sorted(folder.glob("negatives_*.arrow"))
        },
    )


def _recipe(entry: DataSet) -> tuple[str, ...]:
    """All that decides what is built; the Python version too, since a reader may depend on it."""
    reader = READERS[entry.reader]
    cut = entry.cut.model_dump_json() if entry.cut else "whole"
    counts = entry.counts.model_dump_json() if entry.counts else "uncounted"
    own = (entry.name, entry.source, entry.reader, cut, counts, str(entry.relevance_threshold))
    versions = (f"layout {_LAYOUT_VERSION}", f"reader {reader.version}", f"python {platform.python_version()}")
    return (*own, *versions, *reader.inputs(entry))


def _publish(folder: Path, collection: Collection, record: Record) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    except OSError as error:
        message = f"the cache folder cannot be written ({error.strerror}); set DENSESWEEP_CACHE to another folder"
        raise InputError([Problem(where=str(cache_folder()), key="", message=message)]) from error
    try:
        _write(building, collection, record)
        building.rename(folder)
    except OSError:
        if not (folder / _RECORD).is_file():  # not a faster builder, but a full disk or the like
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _write(folder: Path, collection: Collection, record: Record) -> None:
    _write_table(folder / "corpus.arrow", collection.corpus)
    _write_table(folder / "queries.arrow", collection.queries)
    for split, qrels in collection.qrels.items():
        _write_table(folder / f"qrels_{split}.arrow", qrels)
    for split, negatives in collection.negatives.items():
        _write_table(folder / f"negatives_{split}.arrow", negatives)
    (folder / _RECORD).write_text(json.dumps(asdict(record), indent=2, sort_keys=True) + "\n")


def _write_table(file: Path, table: pa.Table) -> None:
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _read_table(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()
