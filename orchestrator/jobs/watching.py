"""What `submit --watch`, `jobs logs` and `jobs stop` tell of a job on their way, and their exit codes."""

from rich.console import Console

from orchestrator.jobs.api import AwayError, Job, JobsApi, UnknownJobError
from orchestrator.jobs.follow import follow, stop
from orchestrator.jobs.show import failure
from orchestrator.jobs.submit import STOP_WITHIN_S, STORAGE_KEY
from orchestrator.kept_logs import last_kept_in
from orchestrator.program import command
from search_spaces.problems import InputError, Problem

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
_AGAIN = "To go on where it stopped: submit the sweep file again"


def watch(api: JobsApi, job_id: str, console: Console) -> int:
    """Print what a job prints until it has ended; returns 0 if it finished. Ctrl-C leaves it running.

    Raises:
        InputError: there is no such job, or the cluster is gone.
    """
    storage = api.job(job_id).metadata.get(STORAGE_KEY)
    try:
        job = follow(api, job_id, line=lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        again, end = _command(api, "logs", job_id, "--follow"), _command(api, "stop", job_id)
        _say(console, f"No longer watched; the job goes on. To follow it: {again}. To stop it: {end}")
        return EXIT_INTERRUPTED
    except AwayError as error:
        [problem] = error.problems
        kept = f"What job '{job_id}' has finished is kept: submit the sweep file to a new cluster"
        look = f"; what it printed, too: {_command(api, 'logs', job_id, '--storage', storage)}" if storage else ""
        message = f"{problem.message}. {kept}{look}"
        raise InputError([Problem(where=problem.where, key="", message=message)]) from error
    _say(console, _end(job))
    return EXIT_OK if job.status == "SUCCEEDED" else EXIT_FAILED


def print_log(api: JobsApi, job_id: str, *, storage: str | None = None) -> None:
    """What it has printed so far; where its cluster is gone, what the last run in the sweep folder `storage` printed.

    Raises:
        InputError: there is no such job, or the cluster is gone, and with `storage` that has kept nothing.
    """
    try:
        text = api.log(job_id)
    except (AwayError, UnknownJobError):
        if storage is None:
            raise
        text = "".join(f"{line}\n" for line in last_kept_in(storage))
    print(text, end="", flush=True)


def stop_job(api: JobsApi, job_id: str, *, waits: bool, console: Console) -> int:
    """Stop a job as Ctrl-C stops a run: after the steps under way; returns 0 if it has ended."""
    if waits:
        _say(console, f"Stopping job {job_id} after the steps under way ...")
    job = stop(api, job_id, wait_s=STOP_WITHIN_S + 30.0 if waits else 0.0)
    if job.has_ended or not waits:
        _say(console, _end(job) if job.has_ended else f"Job {job_id} is asked to stop after the steps under way")
        return EXIT_OK
    _say(console, f"Job {job_id} has not stopped yet; how it stands: {_command(api, 'status', job_id)}")
    return EXIT_FAILED


def _end(job: Job) -> str:
    if job.status == "SUCCEEDED":
        return f"Job {job.job_id} finished"
    if job.status == "STOPPED":
        return f"Job {job.job_id} stopped. {_AGAIN}"
    return f"Job {job.job_id} {failure(job)}. {_AGAIN}"


def _command(api: JobsApi, verb: str, job_id: str, *more: str) -> str:
    return command("jobs", verb, job_id, "--address", api.url, *more)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
