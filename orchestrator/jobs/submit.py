"""Submit a sweep as a job: its file travels with it, and what the folder has of it is not run again."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from orchestrator.driver_command import driver_command
from orchestrator.jobs.api import Job, JobsApi, TakenError
from orchestrator.jobs.checks import needs_same_paths, sending_problems, sent_storage
from orchestrator.jobs.package import packed
from orchestrator.program import command
from search_spaces.load import load_sweep
from search_spaces.problems import InputError, Problem

SWEEP_KEY, STORAGE_KEY, VERSION_KEY = "densesweep.sweep", "densesweep.storage", "densesweep.version"
STOP_WITHIN_S = 120  # from SIGTERM to SIGKILL, in which what runs ends its step; Ray's own 3 s are not enough
_JOB_ID_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A sweep file and what `run` is to do with it over there; `job_id` and `storage` if not the file's own."""

    file: Path
    job_id: str | None
    storage: str | None
    options: dict[str, str | None]


def submit(api: JobsApi, submission: Submission, *, say: Callable[[str], None]) -> str:
    """Check and send; returns the job's id. `say` takes what should be known of it.

    Raises:
        InputError: the sweep cannot run elsewhere, is running there already, or the cluster does not take it.
    """
    file = submission.file
    sweep = load_sweep(file)
    storage = sent_storage(sweep, submission.storage)
    if problems := list(sending_problems(sweep, file, storage, submission.options.get("--tracking"))):
        raise InputError(problems)
    assert storage is not None
    _check_id(submission.job_id)
    jobs = api.jobs()
    _refuse_running(api, jobs, storage)
    job_id = submission.job_id or _free_id(sweep.name, {job.job_id for job in jobs})
    _refuse_taken(api, jobs, job_id)
    if needs_same_paths(sweep, storage):
        say("note: it names paths, which have to be the same folders on every node; the job looks before it starts")
    package = api.upload(*packed(file.name, file.read_bytes()))
    try:
        api.submit(
            job_id=job_id,
            entrypoint=entry_point(file.name, storage, submission.options),
            runtime_env={"working_dir": package, "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WITHIN_S)}},
            metadata={SWEEP_KEY: sweep.name, STORAGE_KEY: storage, VERSION_KEY: version("densesweep")},
        )
    except TakenError as error:  # somebody was faster
        raise InputError([_taken(api, job_id)]) from error
    return job_id


def entry_point(name: str, storage: str, options: dict[str, str | None]) -> str:
    """The command that runs the sweep, for the one shell that reads it on its way."""
    return shlex.join(driver_command(name, storage, options))


def _check_id(job_id: str | None) -> None:
    if job_id is not None and (not job_id or not set(job_id) <= _JOB_ID_LETTERS):
        message = f"'{job_id}' cannot be the id of a job (letters, digits, '.', '_' and '-')"
        raise InputError([Problem(where="--id", key="", message=message)])


def _free_id(name: str, taken: set[str]) -> str:
    """The sweep's name; of one that ran before and goes on, with the number of the run. Ray gives no id twice."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _refuse_running(api: JobsApi, jobs: list[Job], storage: str) -> None:
    for job in jobs:
        if not job.has_ended and job.metadata.get(STORAGE_KEY) == storage:
            follow, stop = _command(api, "logs", job.job_id, "--follow"), _command(api, "stop", job.job_id)
            message = f"job '{job.job_id}' runs this sweep already (to follow it: {follow}; to stop it: {stop})"
            raise InputError([Problem(where=storage, key="", message=message)])


def _refuse_taken(api: JobsApi, jobs: list[Job], job_id: str) -> None:
    if any(job.job_id == job_id for job in jobs):
        raise InputError([_taken(api, job_id)])


def _taken(api: JobsApi, job_id: str) -> Problem:
    look = _command(api, "status", job_id)
    message = f"there is a job '{job_id}' already, and Ray gives no id twice (give another; what it is: {look})"
    return Problem(where="--id", key="", message=message)


def _command(api: JobsApi, verb: str, job_id: str, *more: str) -> str:
    return command("jobs", verb, job_id, "--address", api.url, *more)
