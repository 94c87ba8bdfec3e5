"""The command `densesweep runs`: rankings that a sweep keeps, as TREC run files with judgements and an index beside.

Imports neither torch nor ray nor mlflow.
"""

import csv
import gzip
import io
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from results.asked import AskedRows, asked_runs
from results.layout import SWEEP_LOCK, SweepRecord, trial_rows
from results.locks import state_of
from results.rows import read_rows
from results.store import Store
from search_spaces.problems import InputError, Problem
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.availability import availability
from trainers.evaluation.judged_queries import split_queries

INDEX = "runs.csv"
_QRELS = "qrels"
_OR_OTHERS = ", or export the others with --allow-missing"


@dataclass(frozen=True, kw_only=True)
class ExportedRun:
    """A line of the index: a run file, what it ranks, and how trec_eval is to judge it.

    `relevance_level` is trec_eval's -l. `qrels` is empty where the data set has no judgements, or is not here.
    """

    run: str
    qrels: str
    relevance_level: int
    trial_id: str
    trial: str
    similarity: str  # that it was trained with; empty where it was not trained
    data_set: str
    split: str
    tier: str
    score_similarity: str
    main_measure: str
    checkpoint_hash: str


def export_runs(store: Store, record: SweepRecord, output: Path, *, allow_missing: bool, console: Console) -> None:
    """Write each run file of the sweep, the judgements of its data sets, and `runs.csv`, into a folder.

    Raises:
        InputError: the sweep keeps no run files, or lacks some (unless `allow_missing`), and nothing is written; a run
            file is damaged, or the folder cannot be written.
    """
    asked = [(trial, rows) for trial in _trials(store, record) for rows in asked_runs(store, trial)]
    found = [(trial, rows) for trial, rows in asked if store.exists(rows.key)]
    _refuse_holes(store, record, asked, found, allow_missing=allow_missing)
    qrels = _write_qrels(list(dict.fromkeys(rows.evaluation.data for _, rows in found)), output, console)
    titles = {planned.trial_id: planned.title for planned in record.trials}
    index = [_exported(trial, rows, titles, qrels) for trial, rows in found]
    for line, (_, rows) in zip(index, found, strict=True):
        _write(output / line.run, io.BytesIO(_unpacked(store, rows.key)))
    _write(output / INDEX, io.BytesIO(_index(index)))
    console.print(f"{len(index)} run files in {output}, listed in {INDEX}", markup=False, highlight=False)


def _trials(store: Store, record: SweepRecord) -> Iterator[Mapping[str, Any]]:
    for planned in record.trials:
        if store.exists(trial_rows(planned.trial_id)):
            yield from read_rows(store, trial_rows(planned.trial_id), "trials").to_pylist()


def _refuse_holes(
    store: Store,
    record: SweepRecord,
    asked: Sequence[tuple[Mapping[str, Any], AskedRows]],
    found: Sequence[tuple[Mapping[str, Any], AskedRows]],
    *,
    allow_missing: bool,
) -> None:
    running = state_of(store, SWEEP_LOCK) == "held"
    if not asked:
        message = (
            "this sweep keeps no run files, or none of its trials is trained: write `evaluation: {run_files: true}` "
            "into the sweep file and run it again (checkpoints and rows stay; data sets are encoded once more)"
        )
        if running:
            message = "this sweep is running, and none of its trials is trained yet, or it keeps no run files"
        raise InputError([Problem(where=store.uri, key="", message=message)])
    trained = {trial["trial_id"] for trial, _ in asked}
    titles = {planned.trial_id: planned.title for planned in record.trials}
    lacking = [f"{title}: the whole trial" for key, title in titles.items() if key not in trained]
    lacking += [
        f"{titles[trial['trial_id']]}: {rows.evaluation.data.name} scored with {rows.score_similarity}"
        for trial, rows in asked
        if (trial, rows) not in found
    ]
    if lacking and not (allow_missing and found):
        if running:
            done = f"{len(found)} of {len(found) + len(lacking)} are there"
            message = f"this sweep is running, and {done}: wait until it has ended" + _OR_OTHERS * bool(found)
            raise InputError([Problem(where=store.uri, key="", message=message)])
        remedy = "run the sweep again" + _OR_OTHERS * bool(found)
        raise InputError(
            [Problem(where=store.uri, key=what, message=f"its run file is missing ({remedy})") for what in lacking]
        )


def _unpacked(store: Store, key: str) -> bytes:
    try:
        return gzip.decompress(store.read(key))
    except (OSError, EOFError, zlib.error) as error:
        message = f"is damaged ({error}); delete it, and run the sweep again: it is then made anew"
        raise InputError([Problem(where=f"{store.uri}/{key}", key="", message=message)]) from error


def _exported(
    trial: Mapping[str, Any], rows: AskedRows, titles: Mapping[str, str], qrels: Mapping[DataSpec, str]
) -> ExportedRun:
    data = rows.evaluation.data
    name = f"{trial['trial_id']}.{data.name}.{data.split}.{rows.evaluation.tier}.{rows.score_similarity}.trec"
    return ExportedRun(
        run=name,
        qrels=qrels.get(data, ""),
        relevance_level=data.entry.relevance_threshold,
        trial_id=trial["trial_id"],
        trial=titles[trial["trial_id"]],
        similarity=trial["similarity"] or "",
        data_set=data.name,
        split=data.split,
        tier=rows.evaluation.tier,
        score_similarity=rows.score_similarity,
        main_measure=data.entry.measures[0],
        checkpoint_hash=trial["checkpoint_hash"],
    )


def _write_qrels(data: Sequence[DataSpec], output: Path, console: Console) -> dict[DataSpec, str]:
    """By data set the file of its judgements, of those that are on this machine as they were evaluated."""
    written = {}
    for spec in data:
        if not _is_here(spec):
            told = "is not on this machine as it was evaluated, and so its judgements are not exported"
            console.print(f"note: data set '{spec.name}' {told}", markup=False, highlight=False, soft_wrap=True)
            continue
        queries = split_queries(data_sets.load(spec.entry), spec.split, spec.entry.exclusion)
        if not queries.qrels:
            continue
        written[spec] = f"{_QRELS}/{spec.name}.{spec.split}.txt"
        lines = (f"{q} 0 {d} {grade}\n" for q, grades in queries.qrels.items() for d, grade in grades.items())
        _write(output / written[spec], io.BytesIO("".join(lines).encode()))
    return written


def _is_here(data: DataSpec) -> bool:
    if availability(data.entry).state != "built":
        return False
    try:
        return data_sets.fingerprint(data.entry, data.split).content_hash == data.content_hash
    except InputError:
        return False


def _index(lines: Sequence[ExportedRun]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [field.name for field in fields(ExportedRun)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(line) for line in lines)
    return text.getvalue().encode()


def _write(file: Path, content: io.BufferedIOBase) -> None:
    """Whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        with partial.open("wb") as unfinished:
            shutil.copyfileobj(content, unfinished)
        partial.replace(file)
    except OSError as error:
        raise InputError(
            [Problem(where=str(file), key="-o", message=f"cannot be written: {error.strerror}")]
        ) from error
