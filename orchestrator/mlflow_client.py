"""A quiet MLflow client of one place, and the experiment there: found or made once, whoever else makes it meanwhile."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.tracking_place import TrackingPlace

_LOGGERS = ("mlflow", "alembic", "urllib3", "orchestrator.background")
_KIND = {"mlflow.experimentKind": "custom_model_development"}  # else the UI opens it as one of prompts and agents
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # a server that is away is met again by the next sync
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # of the UI: ten processes that judge prompts
}


def quiet_environment() -> dict[str, str]:
    """This process's environment with MLflow's telemetry off and short retries; what the user has set stays."""
    return {**_ENVIRONMENT, **os.environ}


def quiet_mlflow(log_file: Path) -> None:
    """Import mlflow with telemetry off, and send what it, its database layer and this mirror log to `log_file`."""
    os.environ.update(quiet_environment())  # read by mlflow as it is imported
    import mlflow  # noqa: F401 - its import puts handlers on its loggers, which are replaced here

    log_file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for old in logger.handlers:
            old.close()
        logger.handlers = [handler]
        logger.propagate = False


def open_client(place: TrackingPlace, experiment: str) -> Any:
    """An `MlflowClient` of the place, whatever MLFLOW_TRACKING_URI says; a database of our own is made ready first."""
    from mlflow import MlflowClient  # here, since it takes two seconds that `plan` and `tables` do not spend

    if (database := place.own_database) and database.exists():
        _drop_moved(database, experiment, place.artifacts)
    with _alone_in_sqlite(place.uri):
        return MlflowClient(tracking_uri=place.uri, registry_uri=place.uri)  # which makes the schema


def open_reader(place: TrackingPlace) -> Any:
    """An `MlflowClient` of what is there already: it makes no database, and drops none."""
    quiet_mlflow(Path(os.devnull))
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=place.uri, registry_uri=place.uri)


def found_experiment(client: Any, name: str, artifacts: str | None) -> str:
    """The id of the experiment of that name, made where there is none, and brought back where it was deleted.

    Two sweeps of one name may start at once: of two that make it one is refused, and finds the other's.
    """
    from mlflow import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=artifacts, tags=_KIND)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = client.get_experiment_by_name(name)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _drop_moved(database: Path, experiment: str, artifacts: str | None) -> None:
    """Delete a database that still names another folder for artifacts: it was moved here, and can be filled anew.

    MLflow keeps the artifact folder of an experiment for good.
    """
    with closing(sqlite3.connect(database)) as connection:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone()
        query = "SELECT artifact_location FROM experiments WHERE name = ?"
        found = connection.execute(query, (experiment,)).fetchone() if known else None
    if found and found[0] != artifacts:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)


@contextmanager
def _alone_in_sqlite(uri: str) -> Iterator[None]:
    """Of a SQLite database make the folder, let readers (the UI) go on while the driver writes, and keep others out.

    Of two processes that make the schema at once, each can find the other's half-made tables.
    """
    if not uri.startswith("sqlite:///"):
        yield
        return
    database = Path(uri.removeprefix("sqlite:///"))
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{database}.lock"):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        yield
