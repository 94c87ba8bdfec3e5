"""Commands that show or export what sweeps have: status, tables, numbers, plots, pages, rankings."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.commands.arguments import (
    BaselineOption,
    CorrectionOption,
    JsonOption,
    PairedTestOption,
    PostHocOption,
    ReferenceOption,
    SourceArguments,
    SweepArgument,
    WhereOption,
)
from orchestrator.commands.printing import command_console


def status(sweep: SweepArgument) -> None:
    """Show how the trials and probes of a sweep stand."""
    from orchestrator.show import open_sweep, print_status

    store, record = open_sweep(sweep)
    print_status(store, record, command_console())


def collect(
    sources: SourceArguments,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")],
    json: JsonOption = False,
) -> None:
    """Join sources into one folder of Parquet files, which tables, plots and report read like a sweep."""
    from orchestrator.collect_command import collect_sources
    from orchestrator.open_sources import open_sources

    collect_sources(open_sources(sources), output, as_json=json, console=command_console())


def tables(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE... [TABLE]...", help="Sources as of collect, and tables."),
    ],
    output_format: Annotated[
        Literal["md", "csv", "latex", "json"] | None,
        typer.Option("--format", help="Of tables (default: md); without their names, of all."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A folder for one file per table.")] = None,
    where: WhereOption = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool training data sets (table sts: scales too).")] = False,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Mark holes instead of refusing.")] = False,
    baseline: BaselineOption = "cosine",
    reference: ReferenceOption = None,
    correction: CorrectionOption = "holm",
    paired_test: PairedTestOption = "t",
    post_hoc: PostHocOption = "holm",
) -> None:
    """Show what one or several sources show at a glance; print or export tables of them."""
    from orchestrator.open_sources import open_sources, split_names
    from orchestrator.show_tables import TablesRequest, table_options, write_tables
    from results.tables import TABLES

    opened, names = split_names(sources, list(TABLES), "table")
    request = TablesRequest(
        names=names,
        output_format=output_format,
        output=output,
        allow_missing=allow_missing,
        options=table_options(
            where,
            pool=pool,
            baseline=baseline,
            reference=reference,
            correction=correction,
            paired_test=paired_test,
            post_hoc=post_hoc,
        ),
    )
    write_tables(open_sources(opened), request)


def explain(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source, as of collect.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that the number stands in.")],
    cell: Annotated[
        list[str],
        typer.Argument(
            metavar="CELL...",
            help="Its row and column: NAME=VALUE ... column=NAME, or the row's number and the column.",
        ),
    ],
    where: WhereOption = None,
    pool: Annotated[bool, typer.Option("--pool", help="As of tables.")] = False,
    baseline: BaselineOption = "cosine",
    reference: ReferenceOption = None,
    correction: CorrectionOption = "holm",
    paired_test: PairedTestOption = "t",
    post_hoc: PostHocOption = "holm",
    json: JsonOption = False,
) -> None:
    """Show what is behind a number of a table: trials, MLflow runs, commits, data revisions, seeds and queries."""
    from orchestrator.explain_command import explain_cell
    from orchestrator.open_sources import open_sources
    from orchestrator.show_tables import table_options

    options = table_options(
        where,
        pool=pool,
        baseline=baseline,
        reference=reference,
        correction=correction,
        paired_test=paired_test,
        post_hoc=post_hoc,
    )
    print(explain_cell(open_sources([source]), table, cell, options, as_json=json), end="")


def plots(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE... [PLOT]...", help="Sources as of collect, and plots (default: all)."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write them to.")],
    output_format: Annotated[Literal["all", "pdf", "svg", "png"], typer.Option("--format")] = "all",
    where: WhereOption = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool training data sets.")] = False,
    baseline: BaselineOption = "cosine",
    reference: ReferenceOption = None,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Draw what is there, and say so.")] = False,
) -> None:
    """Draw plots as files for print and screen; those of which there is nothing say why."""
    from orchestrator.open_sources import open_sources, split_names
    from orchestrator.show_drawings import PlotsRequest, write_plots
    from orchestrator.show_tables import table_options
    from results.plots import PLOTS

    opened, names = split_names(sources, list(PLOTS), "plot")
    request = PlotsRequest(
        names=names,
        output_format=output_format,
        output=output,
        allow_missing=allow_missing,
        options=table_options(where, pool=pool, baseline=baseline, reference=reference),
    )
    write_plots(open_sources(opened), request, command_console())


def report(
    sources: SourceArguments,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    where: WhereOption = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool training data sets.")] = False,
    baseline: BaselineOption = "cosine",
    reference: ReferenceOption = None,
) -> None:
    """Write one HTML page with all tables, plots, what is missing and provenance; it needs no network."""
    from orchestrator.open_sources import open_sources
    from orchestrator.show_drawings import write_report
    from orchestrator.show_tables import table_options

    options = table_options(where, pool=pool, baseline=baseline, reference=reference)
    write_report(open_sources(sources), output, options, command_console())


def runs(
    sweep: SweepArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write them to.")],
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Export what is there.")] = False,
) -> None:
    """Export the rankings of a sweep with `run_files: true`: TREC run files, judgements, and runs.csv, their index."""
    from orchestrator.run_export import export_runs
    from orchestrator.show import open_sweep

    store, record = open_sweep(sweep)
    export_runs(store, record, output, allow_missing=allow_missing, console=command_console())
