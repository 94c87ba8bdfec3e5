"""The commands `densesweep submit` and `densesweep jobs ...`. Each imports what it needs when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.terminal import plain_console

if TYPE_CHECKING:
    from orchestrator.jobs.api import JobsApi

jobs = typer.Typer(no_args_is_help=True, help="Sweeps that were submitted to a Ray cluster that runs.")

JobsAddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="URL", help="Of its dashboard: http://HEAD:8265 (or RAY_API_SERVER_ADDRESS)."),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, as submit printed it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (YAML).")],
    address: JobsAddressOption = None,
    job_id: Annotated[str | None, typer.Option("--id", help="Of the job (default: the sweep's name).")] = None,
    watch: Annotated[bool, typer.Option("--watch/--no-wait", help="Follow it to its tables.")] = False,
    storage: Annotated[str | None, typer.Option("--storage", help="The sweep folder, as of run.")] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="NAME=VALUE,...", help="As of run.")] = None,
    memory_budget: Annotated[str | None, typer.Option("--memory-budget", metavar="SIZE", help="As of run.")] = None,
    tracking: Annotated[str | None, typer.Option("--tracking", metavar="URI", help="As of run.")] = None,
    placement_timeout: Annotated[float | None, typer.Option("--placement-timeout", min=0, help="As of run.")] = None,
    groups_at_once: Annotated[int | None, typer.Option("--groups-at-once", min=1, help="As of run.")] = None,
) -> None:
    """Run a sweep as a job of a Ray cluster that runs, or go on with one there; this machine may leave."""
    from orchestrator.jobs.submit import Submission
    from orchestrator.jobs.submit import submit as send
    from orchestrator.jobs.watching import watch as follow
    from orchestrator.program import command

    api = _api(address)
    timeout = None if placement_timeout is None else f"{placement_timeout:g}"
    options = {
        "--only": only,
        "--memory-budget": memory_budget,
        "--tracking": tracking,
        "--placement-timeout": timeout,
        "--groups-at-once": None if groups_at_once is None else str(groups_at_once),
    }
    submission = Submission(file=file, job_id=job_id, storage=storage, options=options)
    sent = send(api, submission, say=_say)
    _say(f"Job {sent} is submitted to {api.url}")
    if watch:
        raise typer.Exit(follow(api, sent, plain_console()))
    _say(f"To follow it: {command('jobs', 'logs', '--follow', sent, '--address', api.url)}")


@jobs.command("list")
def list_jobs(address: JobsAddressOption = None, json: JsonOption = False) -> None:
    """List the sweeps that were submitted to a cluster."""
    from orchestrator.jobs.show import show_jobs

    show_jobs(_api(address), as_json=json, console=plain_console())


@jobs.command("status")
def status(job: JobArgument, address: JobsAddressOption = None, json: JsonOption = False) -> None:
    """Show how a job stands, and its sweep where its folder is seen from here."""
    from orchestrator.jobs.show import show_job

    show_job(_api(address), job, as_json=json, console=plain_console())


@jobs.command("logs")
def logs(
    job: JobArgument,
    address: JobsAddressOption = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it ends.")] = False,
    storage: Annotated[
        str | None, typer.Option("--storage", help="The sweep folder: what it kept, once the cluster is gone.")
    ] = None,
) -> None:
    """Print what a job has printed; with --follow exit code 0 if it finishes."""
    from orchestrator.jobs.watching import print_log, watch

    if follow:
        raise typer.Exit(watch(_api(address), job, plain_console()))
    print_log(_api(address), job, storage=storage)


@jobs.command("stop")
def stop(
    job: JobArgument,
    address: JobsAddressOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return once it has ended.")] = True,
) -> None:
    """Stop a job after the steps under way; the sweep folder stays, and submitting again goes on."""
    from orchestrator.jobs.watching import stop_job

    raise typer.Exit(stop_job(_api(address), job, waits=wait, console=plain_console()))


def _api(address: str | None) -> "JobsApi":
    from orchestrator.jobs.address import auth_token, jobs_url
    from orchestrator.jobs.api import JobsApi

    return JobsApi(url=jobs_url(address), token=auth_token())


def _say(text: str) -> None:
    plain_console().print(text, markup=False, highlight=False, soft_wrap=True)
