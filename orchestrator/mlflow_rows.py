"""Read the rows of sweeps from an MLflow experiment: what the mirror keeps as artifacts, laid out as a sweep folder.

Checkpoints and plots are not fetched. Files are fetched once, into a folder that goes when the program ends.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orchestrator.mlflow_client import open_client, quiet_mlflow
from orchestrator.tracking_place import TrackingPlace, absolute_uri, tracking_problems
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes, probe_prefix, trial_prefix
from results.local_store import LocalStore
from results.sources import Source
from search_spaces.problems import InputError, Problem, unknown_name

_SQLITE = "sqlite:///"
_SWEEP, _TRIAL, _PROBE = "sweep_id", "trial_id", "probe_id"
_ROWS = ("evaluations", "answers", "encodings", "judgements")  # folders that lie in a sweep folder as in a run
_OF_RUN = (
    *("spec.json", "status.json", "evaluations.json"),
    *("trial.parquet", "history.parquet", "pilot.parquet", "probes.parquet"),
)
_OF_SWEEP = ("sweep.json", "sweep.yaml", "pools", "studies")
_SENT = "a running sweep sends them as they end, densesweep sync SWEEP what MLflow lacks of one"
_NOBODYS = "Default"  # the experiment that every server has
_THREADS = 8  # each waits for the server most of the time


def mlflow_sources(experiment: str, uri: str | None) -> list[Source]:
    """A source for each sweep in the experiment: several sweep folders of one name share it.

    Args:
        experiment: its name.
        uri: of the tracking server or database; by default MLFLOW_TRACKING_URI.

    Raises:
        InputError: there is no such place, experiment or sweep, or the sweep was mirrored without its record.
    """
    where = f"mlflow:{experiment}" + (f"@{uri}" if uri else "")
    place = _place(where, uri or os.environ.get("MLFLOW_TRACKING_URI"))
    folder = Path(tempfile.mkdtemp(prefix="densesweep-mlflow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    quiet_mlflow(folder / "mlflow.log")
    try:
        client = open_client(place, experiment)
        runs = list(_runs(client, _experiment_id(client, where, experiment)))
        parents = [run for run in runs if run.data.tags.get("kind") == "sweep"]
        if not parents:
            raise _problem(where, f"holds no sweep ({_SENT})")
        sources = [_source(client, place, parent, runs, folder) for parent in parents]
        if not any(source.runs for source in sources):
            raise _problem(where, f"holds no run of any trial or probe, only that of the sweep ({_SENT})")
        return sources
    except InputError:
        raise
    except Exception as error:  # what MLflow raises of servers, databases and files has no common class
        raise _problem(where, f"cannot be read: {' '.join(str(error).split())}") from error


def _place(where: str, uri: str | None) -> TrackingPlace:
    if uri is None:
        raise _problem(where, "names no tracking server (write mlflow:EXPERIMENT@URI, or set MLFLOW_TRACKING_URI)")
    if problems := tracking_problems(uri, where):
        raise InputError(problems)
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).is_file():
        raise _problem(where, f"there is no database {uri.removeprefix(_SQLITE)}")
    return TrackingPlace(uri=absolute_uri(uri), artifacts=None)


def _experiment_id(client: Any, where: str, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None or found.lifecycle_stage == "deleted":
        known = [experiment.name for experiment in client.search_experiments()]
        if set(known) <= {_NOBODYS}:
            raise _problem(where, f"there is no experiment '{name}': no sweep was sent to this server ({_SENT})")
        raise _problem(where, unknown_name("experiment", name, known))
    identity: str = found.experiment_id
    return identity


def _runs(client: Any, experiment_id: str) -> Iterator[Any]:
    """All runs of the experiment that a sweep wrote."""
    token: str | None = None
    while token != "":
        page = client.search_runs([experiment_id], page_token=token, order_by=["attributes.start_time ASC"])
        yield from (run for run in page if _SWEEP in run.data.tags)
        token = page.token or ""


def _source(client: Any, place: TrackingPlace, parent: Any, runs: list[Any], folder: Path) -> Source:
    """One sweep, with all its files on this machine."""
    identity = parent.data.tags[_SWEEP]
    uri = f"mlflow:{parent.info.run_name}@{place.uri} (sweep {identity})"
    root = folder / identity
    root.mkdir()
    _fetch(client, parent.info.run_id, root, _OF_SWEEP)
    record = root / SWEEP_RECORD
    if not record.is_file():
        raise _problem(uri, f"has no {SWEEP_RECORD} (densesweep sync SWEEP sends what MLflow lacks)")
    asked = from_bytes(SweepRecord, record.read_bytes())
    wanted = {planned.trial_id for planned in (*asked.trials, *asked.pilots, *asked.probes)}
    own = [run for run in runs if run.data.tags[_SWEEP] == identity and _identity(run) in wanted]
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(lambda run: _fetch_run(client, run, root), own):
            pass
    # Of a trial that has several runs the one that started last.
    ids = {found: run.info.run_id for run in own if (found := _identity(run))}
    return Source(uri=uri, kind="MLflow", store=LocalStore(root), record=asked, runs=ids)


def _identity(run: Any) -> str | None:
    """Of the trial or probe; a sweep has none."""
    found: str | None = run.data.tags.get(_TRIAL) or run.data.tags.get(_PROBE)
    return found


def _fetch_run(client: Any, run: Any, root: Path) -> None:
    tags = run.data.tags
    prefix = trial_prefix(tags[_TRIAL]) if _TRIAL in tags else probe_prefix(tags[_PROBE])
    (root / prefix).mkdir(parents=True, exist_ok=True)
    _fetch(client, run.info.run_id, root / prefix, _OF_RUN)
    _fetch(client, run.info.run_id, root, _ROWS)


def _fetch(client: Any, run_id: str, target: Path, wanted: tuple[str, ...]) -> None:
    """The artifacts of these names, files or folders, as far as the run has them."""
    for item in client.list_artifacts(run_id):
        if item.path in wanted:
            client.download_artifacts(run_id, item.path, str(target))


def _problem(where: str, message: str) -> InputError:
    return InputError([Problem(where=where, key="", message=message)])
