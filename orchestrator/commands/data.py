"""The commands `densesweep data ...`."""

from typing import Annotated

import typer

from orchestrator.commands.arguments import JsonOption
from orchestrator.commands.printing import command_console

data = typer.Typer(no_args_is_help=True, help="What data sets there are, what of them is here, and if it is right.")

DataArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Data sets, default groups, path:FOLDER, or a sweep file."),
]


@data.command("list")
def data_list(names: DataArgument = None, json: JsonOption = False) -> None:
    """List data sets with their groups and sizes, and what of them is on this machine."""
    from orchestrator.data_commands import list_data

    list_data(names or (), as_json=json, console=command_console())


@data.command("describe")
def data_describe(names: DataArgument = None, json: JsonOption = False) -> None:
    """Show all that is known of data sets: source, licence, counts, measures, published figures."""
    from orchestrator.data_commands import describe_data

    describe_data(names or (), as_json=json, console=command_console())


@data.command("check")
def data_check(
    names: DataArgument = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also rank them with BM25, as their published figures were made.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Read data sets whole and check them; without names, all of the catalogue that are here."""
    from orchestrator.data_commands import check_data

    raise typer.Exit(check_data(names or (), with_figures=figures, as_json=json, console=command_console()))


@data.command("fetch")
def data_fetch(names: DataArgument = None, json: JsonOption = False) -> None:
    """Fetch what is missing and build it, before any GPU is held: nothing needs the hub afterwards."""
    from orchestrator.data_commands import fetch_data

    fetch_data(names or (), as_json=json, console=command_console())
