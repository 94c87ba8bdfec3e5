"""`densesweep recommend`: which similarity to train one's own model with on one's own data, and how far to trust it."""

import os
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import polars as pl
from rich.console import Console

from orchestrator.inspection import Inspection, OwnTask, findings, inspect
from orchestrator.interrupt import interruptible
from orchestrator.open_sources import open_sources
from orchestrator.own_inputs import OwnModel, own_data, own_model, own_probes
from orchestrator.program import command
from orchestrator.show import source_rows
from orchestrator.show_recommendation import Answer, as_json, lines
from results.collect import Collected, collect
from results.layout import PlannedTrial, SweepRecord, probe_prefix, probe_rows
from results.recommendation import Recommendation, calls_of, for_symmetric_task, recommend
from results.schemas import SchemaError
from results.selection import SelectionError
from results.store import LockedError, Store, open_store
from results.tables import TABLES
from results.tables.predictions import prediction_rows
from results.tables.table import TableOptions
from results.track_record import Place, TrackRecord, track_records
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import probe_id
from search_spaces.problems import InputError, Problem
from search_spaces.specs import ProbeSpec
from trainers.cache import cache_folder

SCALES = ("fixed(20)", "matched(20)")
EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
_STALE_AFTER_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be recommended for.

    Attributes:
        family: a name of the catalogue, a model folder, or another source of weights.
        data: a data set of the catalogue or a folder in BEIR's layout, with /SPLIT or without.
        task: 'sts' is a symmetric one; None is what the data is for.
        sources: sweeps that say how often calls were right.
        checkpoint: weights of the family's architecture, in place of its own.
        scales: of the trainings that it is for.
        num_queries: that a probe reads, at most.
    """

    family: str
    data: str
    task: OwnTask | None
    sources: Sequence[str]
    checkpoint: Path | None
    scales: Sequence[str]
    num_queries: int


def print_recommendation(asked: Asked, *, as_json_text: bool, console: Console) -> int:
    """Probe what was not probed yet, and print what follows; `console` takes lines on how it goes.

    Raises:
        InputError: the model, the data or a source cannot be used.
    """

    def stop() -> NoReturn:
        raise KeyboardInterrupt

    def end() -> NoReturn:
        os._exit(EXIT_INTERRUPTED)

    with interruptible(stop, end):
        try:
            return _print_recommendation(asked, as_json_text, console)
        except KeyboardInterrupt:
            console.print(f"Stopped. Finished probes are kept; to go on: {_again(asked)}", markup=False, soft_wrap=True)
            return EXIT_INTERRUPTED


def _print_recommendation(asked: Asked, as_json_text: bool, console: Console) -> int:
    model = own_model(asked.family, asked.checkpoint)
    entry, split = own_data(asked.data)
    found = inspect(model.encoder.weights)
    collected = source_rows(open_sources(asked.sources)) if asked.sources else None
    task: OwnTask = asked.task or ("sts" if entry.is_scored else "retrieval")
    if task == "sts":
        recommendation, probes = for_symmetric_task(), []
    else:
        probes = own_probes(model, entry, split, scales=asked.scales, num_queries=asked.num_queries)
        rows = _rows_of_probes(probes, collected, _to(console))
        if isinstance(rows, str):
            console.print(f"error: {rows}", markup=False, highlight=False, soft_wrap=True)
            return EXIT_FAILED
        recommendation = recommend(calls_of(rows, _records(collected, _to(console))))
    answer = _answer(asked, task, model, entry, found, recommendation, probes)
    if as_json_text:
        print(as_json(answer))
    else:
        print("\n".join(lines(answer)))
    return EXIT_OK


def _answer(
    asked: Asked,
    task: OwnTask,
    model: OwnModel,
    entry: DataSet,
    found: Inspection,
    recommendation: Recommendation,
    probes: Sequence[ProbeSpec],
) -> Answer:
    return Answer(
        family=model.family.name,
        init_regime=model.encoder.init_regime,
        data=f"{entry.name}/{probes[0].training_data.split}" if probes else entry.name,
        task=task,
        recommendation=recommendation,
        inspection=found,
        checks=tuple(findings(found, model.family.settings, task)),
        # What is found of a Normalize module is among the checks, with what to do.
        notices=tuple(text for text in model.notices if "Normalize" not in text),
        sources=tuple(asked.sources),
        num_pairs=probes[0].training_data.num_pairs if probes else None,
        candidates_per_query=probes[0].candidates_per_query if probes else None,
    )


def _rows_of_probes(
    probes: Sequence[ProbeSpec], collected: Collected | None, say: Callable[[str], None]
) -> pl.DataFrame | str:
    """What predictors say of the probes, or why one of them failed."""
    frames = []
    for spec in probes:
        rows = _known(spec, collected)
        if rows is None:
            probed = _probed(spec, say)
            if isinstance(probed, str):
                return probed
            rows = probed
        frames.append(rows)
    return pl.concat(frames)


def _known(spec: ProbeSpec, collected: Collected | None) -> pl.DataFrame | None:
    """The rows of a probe that a given sweep has run already."""
    if collected is None:
        return None
    rows = prediction_rows(collected, {}).filter((pl.col("probe_id") == probe_id(spec)) & pl.col("scale").is_not_null())
    has_rows = collected.probes.filter(pl.col("probe_id") == probe_id(spec)).height > 0
    return rows if has_rows else None


def _probed(spec: ProbeSpec, say: Callable[[str], None]) -> pl.DataFrame | str:
    """The rows of a probe of one's own, which is run once: they stay in the cache folder; or why it failed."""
    key = probe_id(spec)
    store = open_store(str(cache_folder().absolute() / "recommend" / key))
    title = f"{spec.title} on {spec.training_data.name}/{spec.training_data.split} at {spec.scale}"
    if not store.exists(probe_rows(key)):
        say(f"{title}: reads {spec.num_queries} queries at most; nothing is trained")
        with _locked(store, title) as verify:
            from trainers.fisher.probe import run_probe

            status = run_probe(spec, store, verify=verify)
        if status.state != "finished":
            return f"{title} failed: {status.reason} (its status is in {store.uri}/{probe_prefix(key)})"
    record = SweepRecord(
        name="recommend",
        trials=(),
        probes=(PlannedTrial(trial_id=key, title=spec.title),),
        evaluations=(),
        left_out=(),
        primary_groups=(),
    )
    return prediction_rows(collect(store, record), {})


@contextmanager
def _locked(store: Store, title: str) -> Iterator[Callable[[], None]]:
    owner = f"{socket.gethostname()}:{os.getpid()}"
    try:
        lock = store.lock("probe", owner=owner, stale_after_s=_STALE_AFTER_S)
    except LockedError as error:
        message = f"is being probed already ({error}): give the command again when that has ended"
        raise InputError([Problem(where="recommend", key=title, message=message)]) from error
    try:
        yield lock.verify
    finally:
        lock.release()


def _records(collected: Collected | None, say: Callable[[str], None]) -> Mapping[Place, TrackRecord]:
    """How often each predictor was right in the given sweeps; those without such a table have nothing to say."""
    if collected is None:
        return {}
    if not TABLES["fisher_check"].applies(collected.record):
        say("The given sweeps have no probes beside evaluations: nothing is known of how often calls were right.")
        return {}
    try:
        return track_records(TABLES["fisher_check"].build(collected, TableOptions()).rows)
    except (SelectionError, SchemaError) as error:
        say(f"How often calls were right cannot be told from the given sweeps: {error}")
        return {}


def _again(asked: Asked) -> str:
    options = [("--family", asked.family), ("--data", asked.data), ("--task", asked.task)]
    options += [("--checkpoint", str(asked.checkpoint) if asked.checkpoint else None)]
    options += [("--scale", scale) for scale in asked.scales if tuple(asked.scales) != SCALES]
    options += [("--sweeps", source) for source in asked.sources]
    return command("recommend", *(shlex.quote(part) for option in options if option[1] for part in option if part))


def _to(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
