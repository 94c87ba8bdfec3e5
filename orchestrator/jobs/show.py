"""How jobs stand, for people and for programs."""

import json
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.jobs.api import Job, JobsApi
from orchestrator.jobs.submit import STORAGE_KEY, SWEEP_KEY
from orchestrator.show import open_sweep, print_status
from search_spaces.problems import InputError

_NAMES = {"SUCCEEDED": "finished", "FAILED": "failed", "STOPPED": "stopped", "RUNNING": "running", "PENDING": "waiting"}


def show_jobs(api: JobsApi, *, as_json: bool, console: Console) -> None:
    """The sweeps among the jobs of a cluster."""
    jobs = [job for job in api.jobs() if SWEEP_KEY in job.metadata]
    if as_json:
        print(json.dumps([_as_json(job) for job in jobs], indent=2))
        return
    if not jobs:
        console.print(f"No sweep was submitted to {api.url}.", markup=False, highlight=False)
        return
    table = Table("job", "state", "started", "ended", "sweep folder", box=None, pad_edge=False)
    for job in jobs:
        table.add_row(job.job_id, _state(job), _time(job.started_s), _time(job.ended_s), job.metadata[STORAGE_KEY])
    console.print(table, markup=False, highlight=False)


def show_job(api: JobsApi, job_id: str, *, as_json: bool, console: Console) -> None:
    """One job: how Ray says that it stands, and how its sweep does where its folder is seen from here."""
    job = api.job(job_id)
    if as_json:
        print(json.dumps(_as_json(job), indent=2))
        return
    ended = f", ended {_time(job.ended_s)}" if job.ended_s else ""
    lines = [f"job {job.job_id}: {_state(job)}, started {_time(job.started_s)}{ended}"]
    if job.message and not job.has_ended:
        lines.append(f"Ray says: {' '.join(job.message.split())}")
    if reason := failure(job):
        lines.append(reason)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    _show_sweep(job, console)


def failure(job: Job) -> str | None:
    """Why it failed, in one line; None where it did not."""
    if job.status != "FAILED":
        return None
    last = next((line.strip() for line in reversed(job.message.splitlines()) if line.strip()), "Ray gives no reason")
    code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
    return f"failed{code}: {last}"


def _show_sweep(job: Job, console: Console) -> None:
    if (storage := job.metadata.get(STORAGE_KEY)) is None:
        console.print("It runs no sweep that was submitted by densesweep.", markup=False, highlight=False)
        return
    try:
        store, record = open_sweep(storage)
    except (InputError, OSError) as error:
        text = f"sweep folder {storage}: nothing of it is seen from here ({' '.join(str(error).split())})"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        return
    print_status(store, record, console)


def _state(job: Job) -> str:
    return _NAMES.get(job.status, job.status.lower())


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def _as_json(job: Job) -> dict[str, Any]:
    return {
        "job": job.job_id,
        "status": job.status,
        "started": _time(job.started_s) or None,
        "ended": _time(job.ended_s) or None,
        "exit_code": job.exit_code,
        "message": job.message,
        "sweep": job.metadata.get(SWEEP_KEY),
        "storage": job.metadata.get(STORAGE_KEY),
    }
