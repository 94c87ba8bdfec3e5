"""Serve the MLflow UI of a sweep on 127.0.0.1."""

import subprocess

from rich.console import Console

from orchestrator.tracking import TrackingPlace, place_of, quiet_environment, ui_command
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes
from results.store import Store
from search_spaces.problems import InputError, Problem


def recorded_place(store: Store) -> TrackingPlace:
    """Where the runs of a sweep folder are tracked, by its record.

    Raises:
        InputError: it has no database yet, on this machine.
    """
    record = from_bytes(SweepRecord, store.read(SWEEP_RECORD))
    place = place_of(store, record.tracking_uri, where=store.uri)
    if place.own_database and not place.own_database.exists():
        message = f"there is no MLflow database at {place.own_database}; 'densesweep run' of the sweep file makes it"
        raise InputError([Problem(where=store.uri, key="", message=message)])
    return place


def serve_ui(store: Store, port: int, console: Console) -> int:
    """Run the UI until Ctrl-C; for a tracking server, only say where it is. Returns the exit code."""
    place = recorded_place(store)
    if place.is_server:
        console.print(f"This sweep is tracked on {place.uri}")
        return 0
    console.print(f"MLflow UI on http://127.0.0.1:{port} (Ctrl-C ends it)")
    try:
        return subprocess.run(ui_command(place, port=port), env=quiet_environment(), check=False).returncode
    except KeyboardInterrupt:
        return 0
