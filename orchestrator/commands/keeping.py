"""Commands that keep a sweep folder and its mirror in order: MLflow's page, sync, doctor."""

from typing import Annotated

import typer

from orchestrator.commands.arguments import SweepArgument
from orchestrator.commands.printing import command_console


def ui(sweep: SweepArgument, port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 5000) -> None:
    """Open the MLflow UI of a sweep on 127.0.0.1."""
    from orchestrator.show import open_sweep
    from orchestrator.ui import serve_ui

    store, _ = open_sweep(sweep)
    raise typer.Exit(serve_ui(store, port, command_console()))


def sync(sweep: SweepArgument) -> None:
    """Send to MLflow what it lacks of a sweep: after its server was away, or its database was lost."""
    from orchestrator.show import open_sweep
    from orchestrator.sync import sync_sweep

    raise typer.Exit(sync_sweep(*open_sweep(sweep), command_console()))


def doctor(
    sweep: SweepArgument,
    repair: Annotated[bool, typer.Option("--repair", help="Delete or reset what is faulty.")] = False,
    hashes: Annotated[bool, typer.Option("--hashes/--no-hashes", help="Hash each checkpoint whole.")] = True,
    drop_continuations: Annotated[
        bool, typer.Option("--drop-continuations", help="What more steps would go on from is left over, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Check a sweep folder and repair it; exit code 0: sound, 1: faults are left."""
    from orchestrator.doctor_command import DoctorRequest, run_doctor
    from orchestrator.show import open_sweep

    request = DoctorRequest(repair=repair, hashes=hashes, as_json=json, drop_continuations=drop_continuations)
    raise typer.Exit(run_doctor(*open_sweep(sweep), request, command_console()))
