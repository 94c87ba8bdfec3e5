"""Commands that take a sweep file: check it, plan it, run it or a part of it; and the recommendation."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.commands.arguments import (
    AddressOption,
    BudgetOption,
    JsonOption,
    OnlyOption,
    PlacementOption,
    StorageOption,
    SweepFileArgument,
)
from orchestrator.commands.printing import command_console, print_json
from search_spaces.problems import InputError


def validate(file: SweepFileArgument, address: AddressOption = None) -> None:
    """Check a sweep file, its weights and its data; start nothing."""
    from orchestrator.addresses import resolved_address
    from orchestrator.plan import make_plan
    from orchestrator.resolve import resolve
    from orchestrator.show import print_notices

    resolved = resolve(file, runs_here=resolved_address(address) is None)
    plan = make_plan(resolved, None)
    print_notices(plan, command_console())
    searches = f"{len(plan.studies)} search{'es' * (len(plan.studies) != 1)}, " if plan.studies else ""
    counted = f"{searches}{len(plan.trials)} trials and {len(plan.probes)} probes"
    command_console().print(f"{file}: {counted}, no problems.", highlight=False)


def schema() -> None:
    """Print the sweep file's schema as JSON Schema, for editors."""
    from search_spaces.json_schema import json_schema

    print_json(json_schema())


def plan(
    file: SweepFileArgument,
    storage: StorageOption = None,
    only: OnlyOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Show what is done, left, left out and missing of a sweep, and what the rest takes; fetch nothing."""
    from orchestrator.addresses import resolved_address
    from orchestrator.costs import costs
    from orchestrator.meaning import meaning_problems
    from orchestrator.only import parse_only
    from orchestrator.resolve import survey
    from orchestrator.reuse import foresee
    from orchestrator.row_costs import mirror_place
    from orchestrator.show_plan import plan_as_json, print_plan
    from orchestrator.storage import storage_of
    from results.store import open_existing_store

    resolved = survey(file, runs_here=resolved_address(address) is None)
    uri = storage_of(resolved.sweep, storage)
    store = open_existing_store(uri)
    planned, foreseen = foresee(resolved, store, parse_only(only, resolved.expansion))
    if problems := list(meaning_problems(planned, store)) if store else []:
        raise InputError(problems)
    taken = costs(planned, foreseen, mirror_place(uri, resolved.sweep.tracking.uri))
    if json:
        print_json(plan_as_json(planned, taken, uri))
        return
    print_plan(planned, taken, uri, command_console())


def run(
    file: SweepFileArgument,
    storage: StorageOption = None,
    only: OnlyOption = None,
    memory_budget: BudgetOption = None,
    tracking: Annotated[
        str | None, typer.Option("--tracking", metavar="URI", help="The MLflow server, instead of the file's own.")
    ] = None,
    address: AddressOption = None,
    placement_timeout: PlacementOption = 600.0,
    groups_at_once: Annotated[
        int | None,
        typer.Option(
            "--groups-at-once",
            min=1,
            help="On a cluster that grows: trials on several devices that it will have room for.",
        ),
    ] = None,
    keep_output: Annotated[
        bool, typer.Option("--keep-output", help="Keep what this prints in logs/ of the sweep folder, too.")
    ] = False,
) -> None:
    """Run a sweep, or go on with one: what is finished is not run again."""
    if keep_output:
        from orchestrator.kept_output import run_kept_again

        raise typer.Exit(run_kept_again(file, storage))
    from orchestrator.addresses import resolved_address
    from orchestrator.run import Request, run_sweep
    from orchestrator.running import Where

    joined = resolved_address(address)
    where = Where(
        address=joined, placement_timeout_s=placement_timeout if joined else 0.0, groups_at_once=groups_at_once
    )
    request = Request(
        path=file,
        storage=storage,
        console=command_console(),
        where=where,
        only=only,
        memory_budget=memory_budget,
        tracking=tracking,
    )
    raise typer.Exit(run_sweep(request))


def probe(
    file: SweepFileArgument,
    storage: StorageOption = None,
    only: OnlyOption = None,
    address: AddressOption = None,
    placement_timeout: PlacementOption = 600.0,
    pilot: Annotated[bool, typer.Option("--pilot", help="Train the file's pilots too.")] = False,
    output_format: Annotated[Literal["md", "csv", "json"], typer.Option("--format")] = "md",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A folder for the table and the plots of spectra.")
    ] = None,
) -> None:
    """Run the probes of a sweep and show what predictors call; nothing is trained. `run` finds them done."""
    from orchestrator.addresses import resolved_address
    from orchestrator.probe_command import Shown, run_probes
    from orchestrator.run import Request
    from orchestrator.running import Where

    joined = resolved_address(address)
    where = Where(address=joined, placement_timeout_s=placement_timeout if joined else 0.0)
    request = Request(path=file, storage=storage, console=command_console(stderr=True), where=where, only=only)
    shown = Shown(output_format=output_format, output=output)
    raise typer.Exit(run_probes(request, shown, with_pilots=pilot))


def recommend(
    family: Annotated[str, typer.Option("--family", help="A family of the catalogue, a model folder, or its source.")],
    data: Annotated[
        str, typer.Option("--data", metavar="NAME[/SPLIT]", help="A data set of the catalogue, or a BEIR folder.")
    ],
    task: Annotated[
        Literal["retrieval", "sts"] | None, typer.Option("--task", help="sts: symmetric (default: what the data is).")
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option("--sweeps", metavar="SOURCE...", help="Sources as of collect: how often were calls right there?"),
    ] = None,
    more_sweeps: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE]...", help="More of --sweeps.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="A folder of the family's own architecture: your weights.")
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option("--scale", help="Of the training it is for (default: fixed(20) and matched).")
    ] = None,
    num_queries: Annotated[int, typer.Option("--queries", min=2, help="That a probe reads, at most.")] = 1024,
    output_format: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Say which similarity to train one's own model with on one's own data, and how far to trust that."""
    from orchestrator.recommend_command import SCALES, Asked, print_recommendation

    asked = Asked(
        family=family,
        data=data,
        task=task,
        sources=(*(sweeps or ()), *(more_sweeps or ())),
        checkpoint=checkpoint,
        scales=tuple(scale or SCALES),
        num_queries=num_queries,
    )
    as_json = output_format == "json"
    raise typer.Exit(print_recommendation(asked, as_json_text=as_json, console=command_console(stderr=True)))
