"""Serve the MLflow UI of a sweep on 127.0.0.1."""

import subprocess
from pathlib import Path

from rich.console import Console

from orchestrator.tracking import TrackingPlace, quiet_environment, tracking_place, ui_command
from results.store import Store
from search_spaces.load import parse_sweep
from search_spaces.problems import InputError, Problem


def place_of(store: Store) -> TrackingPlace:
    """Where the runs of a sweep folder are tracked.

    Raises:
        InputError: it has no tracking: it is no local folder, and its file names no server.
    """
    text = store.read("sweep.yaml").decode()
    sweep = parse_sweep(text, where=f"{store.uri}/sweep.yaml", folder=Path.cwd())
    place = tracking_place(store.uri, sweep.tracking.uri)
    if place is None:
        raise InputError([Problem(where=store.uri, key="tracking.uri", message="this sweep is not tracked in MLflow")])
    return place


def serve_ui(store: Store, port: int, console: Console) -> int:
    """Run the UI until Ctrl-C; for a tracking server, only say where it is. Returns the exit code."""
    place = place_of(store)
    if place.is_server:
        console.print(f"This sweep is tracked on {place.uri}")
        return 0
    console.print(f"MLflow UI on http://127.0.0.1:{port} (Ctrl-C ends it)")
    try:
        return subprocess.run(ui_command(place, port=port), env=quiet_environment(), check=False).returncode
    except KeyboardInterrupt:
        return 0
