"""Write what sources hold into one folder: a Parquet file per schema, and `collected.json`, which says where from."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from results.asked import asked_answers, asked_encodings, asked_evaluations, asked_norms, asked_twice
from results.bulk import Batch, read_batches
from results.collect import Collected
from results.collected_folder import (
    INDEX,
    INDEX_SCHEMA,
    RECORD,
    RECORDS,
    RECORDS_SCHEMA,
    CollectedRecord,
    CollectedSource,
    record_to_bytes,
)
from results.layout import (
    SWEEP_FILE,
    evaluations_key,
    history_rows,
    pilot_rows,
    pool_record,
    probe_prefix,
    probe_rows,
    spec_key,
    status_key,
    study_key,
    trial_prefix,
    trial_rows,
)
from results.query_rows import OF_FILE
from results.rows import read_rows
from results.schemas import CELL_COLUMNS, PER_QUERY, SCHEMA_VERSION, SCHEMAS, TRIALS
from results.sources import Source
from search_spaces.problems import InputError, Problem

_OF_TRIAL = ("trial_id", *CELL_COLUMNS)


def write_collected(source: Source, collected: Collected, folder: Path) -> None:
    """Write the rows of a source; `collected` are those of `source`. An older collected folder there is replaced.

    Raises:
        InputError: the folder holds something else.
    """
    _make_room(folder)
    with ExitStack() as stack:
        index = _Writer(stack, folder / INDEX, INDEX_SCHEMA)
        for name, keys in _keys(collected).items():
            writer = _Writer(stack, folder / f"{name}.parquet", _schema(name))
            # Of a schema without rows too: the folder reads alike whatever is in it.
            for row_group, batch in enumerate(read_batches(source.store, keys, name)):
                rows = _with_owners(collected, batch.rows) if name == "per_query" else batch.rows
                writer.write(rows.drop("file").to_arrow())
                index.write(_index(batch, rows, name, row_group))
        records = [{"key": key, "data": source.store.read(key)} for key in _record_keys(collected)]
        _Writer(stack, folder / RECORDS, RECORDS_SCHEMA).write(pa.Table.from_pylist(records, schema=RECORDS_SCHEMA))
    record = CollectedRecord(
        schema_version=SCHEMA_VERSION,
        sources=tuple(map(_told, source.leaves)),
        record=source.record,
        findings=source.findings,
        notes=source.notes,
        missing=tuple(map(str, collected.missing)),
    )
    (folder / RECORD).write_bytes(record_to_bytes(record))


class _Writer:
    """One Parquet file; each table that is written becomes a row group, however long."""

    def __init__(self, stack: ExitStack, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))

    def write(self, table: pa.Table) -> None:
        self._file.write_table(table.cast(self._schema), row_group_size=max(1, table.num_rows))


def _make_room(folder: Path) -> None:
    record = folder / RECORD
    if folder.exists() and not folder.is_dir():
        raise InputError([Problem(where=str(folder), key="-o", message="is a file (give a folder)")])
    if folder.is_dir() and any(folder.iterdir()) and not record.is_file():
        message = "holds something else than collected rows (give an empty or a new folder)"
        raise InputError([Problem(where=str(folder), key="-o", message=message)])
    folder.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)  # until all is written, it is no collected folder


def _schema(name: str) -> pa.Schema:
    """The stored columns; per query rows with trial, cell and group before them, and whether it is the main measure."""
    stored = SCHEMAS[name]
    if name != "per_query":
        return stored
    of_trial = [TRIALS.field(column).with_nullable(True) for column in _OF_TRIAL]
    fields = [*of_trial, pa.field("group", pa.string()), *PER_QUERY, pa.field("is_main", pa.bool_())]
    return pa.schema(fields).with_metadata(stored.metadata or {})


def _with_owners(collected: Collected, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of each file, all of them once for every trial and group that it belongs to.

    Rows that no group asks for (of a whole corpus, beside those on its pool) have neither trial nor group.
    """
    of_file = rows.unique("file", keep="first", maintain_order=True).select("file", *OF_FILE)
    owners = of_file.join(collected.scored.drop("block"), on=OF_FILE, how="left", maintain_order="left_right")
    joined = owners.drop(OF_FILE).join(rows, on="file", maintain_order="left_right")
    joined = joined.with_columns(is_main=pl.col("measure") == pl.col("main_measure"))
    return joined.select(*_OF_TRIAL, "group", *PER_QUERY.names, "is_main", "file")


def _index(batch: Batch, written: pl.DataFrame, name: str, row_group: int) -> pa.Table:
    """Where the rows of each file are, the first time that they are written."""
    starts = dict(written.with_row_index("row").group_by("file").agg(pl.col("row").min()).iter_rows())
    sizes = dict(batch.rows.group_by("file").len().iter_rows())
    places = range(len(batch.keys))
    columns = {
        "key": list(batch.keys),
        "schema": [name] * len(batch.keys),
        "row_group": [row_group] * len(batch.keys),
        "start": [starts.get(place, 0) for place in places],
        "num_rows": [sizes.get(place, 0) for place in places],
        "provenance_json": list(batch.provenance),
    }
    return pa.table(columns, schema=INDEX_SCHEMA)


def _keys(collected: Collected) -> dict[str, list[str]]:
    """The keys of all rows that are there, by schema."""
    store = collected.store
    found: dict[str, dict[str, None]] = {name: {} for name in ("trials", "history", "probes", "per_query", "sts", "qa")}
    found |= {"norms": {}, "judgements": {}}
    for trial in collected.trials.iter_rows(named=True):
        found["trials"][trial_rows(trial["trial_id"])] = None
        found["history"][history_rows(trial["trial_id"])] = None
        for asked in asked_evaluations(store, trial):
            found["sts" if asked.evaluation.data.entry.is_scored else "per_query"][asked.key] = None
        for twice in asked_twice(store, trial):  # which say how far a pool's scores can be trusted
            found["per_query"][twice.full_key] = None
        found["qa"] |= {asked.key: None for asked in asked_answers(store, trial)}
        found["norms"] |= dict.fromkeys(asked_norms(store, trial))
        found["judgements"] |= {encoding.judgements: None for encoding in asked_encodings(store, trial)}
    for pilot in collected.record.pilots:
        found["trials"][trial_rows(pilot.trial_id)] = None
        found["per_query"][pilot_rows(pilot.trial_id)] = None
    found["probes"] = {probe_rows(probe.trial_id): None for probe in collected.record.probes}
    return {name: [key for key in keys if store.exists(key)] for name, keys in found.items()}


def _record_keys(collected: Collected) -> list[str]:
    """The keys of the small records beside the rows that are there."""
    record = collected.record
    keys = [SWEEP_FILE]
    for trial in (*record.trials, *record.pilots):
        prefix = trial_prefix(trial.trial_id)
        keys += [spec_key(prefix), status_key(prefix), evaluations_key(trial.trial_id)]
    for probe in record.probes:
        keys += [spec_key(probe_prefix(probe.trial_id)), status_key(probe_prefix(probe.trial_id))]
    keys += [study_key(study.study_id) for study in record.studies]
    keys += [pool_record(evaluation.pool_id) for evaluation in record.evaluations if evaluation.pool_id]
    return [key for key in dict.fromkeys(keys) if collected.store.exists(key)]


def _told(source: Source) -> CollectedSource:
    """A single source, with what its trials were made with."""
    store, record = source.store, source.record
    done = [trial_rows(t.trial_id) for t in record.trials if store.exists(trial_rows(t.trial_id))]
    made = Counter(str(text) for key in done for text in read_rows(store, key, "trials")["provenance_json"].to_pylist())
    return CollectedSource(
        uri=source.uri,
        kind=source.kind,
        record=record,
        num_trials=len(done),
        num_probes=sum(store.exists(probe_rows(probe.trial_id)) for probe in record.probes),
        made_with=tuple(_counted(text, number) for text, number in made.items()),
        runs=source.runs,
        origin=source.origin or (source.uri if source.kind == "sweep folder" else None),
    )


def _counted(provenance_json: str, num_trials: int) -> Mapping[str, Any]:
    return {"num_trials": num_trials, **json.loads(provenance_json)}
