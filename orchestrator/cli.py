"""The command line. Commands import what they need when they run: `--help` and `tables` must start at once."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from orchestrator.jobs.command import jobs, submit
from orchestrator.kubernetes.command import k8s
from search_spaces.problems import InputError, Problem, UnreadableError

app = typer.Typer(
    name="densesweep",
    help="Sweep dense-retrieval trainings over models, similarities and init regimes, and say what the sweep showed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_DOCTOR = "densesweep doctor SWEEP says which; with --repair it goes, and the next run makes it again"

SweepFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (YAML).")]
SweepArgument = Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep folder, or the sweep file that made it.")]
SourceArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...", help="Sweep folders or files, collected folders, mlflow:EXPERIMENT@URI; read as one."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="NAME=VALUE,...", help="Only these cells, such as family=minilm,similarity=qnorm."),
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--memory-budget", metavar="SIZE", help="Memory of each search, such as 2GiB, instead of the file's."),
]
WhereOption = Annotated[list[str] | None, typer.Option("--where", metavar="COLUMN=VALUE", help="Only these cells.")]
BaselineOption = Annotated[str, typer.Option("--baseline", help="The similarity that gains are against.")]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILE[,COLUMN=VALUE...]",
        help="A CSV file of external numbers to stand beside ours (docs/tables.md); several times for several.",
    ),
]
CorrectionOption = Annotated[
    Literal["holm", "bh"], typer.Option("--correction", help="Of all p values of a table; bh: Benjamini-Hochberg.")
]
PairedTestOption = Annotated[
    Literal["t", "permutation", "wilcoxon"], typer.Option("--paired-test", help="Per query test for these seeds only.")
]
PostHocOption = Annotated[
    Literal["holm", "nemenyi"], typer.Option("--post-hoc", help="Of pairs ranked over data sets.")
]
StorageOption = Annotated[str | None, typer.Option("--storage", help="The sweep folder, instead of the file's own.")]

AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="The Ray cluster it runs on: HOST:PORT of its head, or auto (default: RAY_ADDRESS, else one of its own).",
    ),
]

PlacementOption = Annotated[
    float, typer.Option("--placement-timeout", min=0, help="On such a cluster: seconds to wait for fitting nodes.")
]


@app.command()
def validate(file: SweepFileArgument, address: AddressOption = None) -> None:
    """Check a sweep file, its weights and its data; start nothing."""
    from orchestrator.addresses import resolved_address
    from orchestrator.plan import make_plan
    from orchestrator.resolve import resolve
    from orchestrator.show import print_notices

    resolved = resolve(file, runs_here=resolved_address(address) is None)
    plan = make_plan(resolved, None)
    print_notices(plan, _console())
    searches = f"{len(plan.studies)} search{'es' * (len(plan.studies) != 1)}, " if plan.studies else ""
    counted = f"{searches}{len(plan.trials)} trials and {len(plan.probes)} probes"
    _console().print(f"{file}: {counted}, no problems.", highlight=False)


@app.command()
def schema() -> None:
    """Print the sweep file's schema as JSON Schema, for editors."""
    from search_spaces.json_schema import json_schema

    _print_json(json_schema())


@app.command()
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
        _print_json(plan_as_json(planned, taken, uri))
        return
    print_plan(planned, taken, uri, _console())


@app.command()
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
        console=_console(),
        where=where,
        only=only,
        memory_budget=memory_budget,
        tracking=tracking,
    )
    raise typer.Exit(run_sweep(request))


@app.command()
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
    request = Request(path=file, storage=storage, console=_console(stderr=True), where=where, only=only)
    shown = Shown(output_format=output_format, output=output)
    raise typer.Exit(run_probes(request, shown, with_pilots=pilot))


@app.command()
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
    raise typer.Exit(print_recommendation(asked, as_json_text=as_json, console=_console(stderr=True)))


@app.command()
def status(sweep: SweepArgument) -> None:
    """Show how the trials and probes of a sweep stand."""
    from orchestrator.show import open_sweep, print_status

    store, record = open_sweep(sweep)
    print_status(store, record, _console())


@app.command()
def collect(
    sources: SourceArguments,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")],
    json: JsonOption = False,
) -> None:
    """Join sources into one folder of Parquet files, which tables, plots and report read like a sweep."""
    from orchestrator.collect_command import collect_sources
    from orchestrator.open_sources import open_sources

    collect_sources(open_sources(sources), output, as_json=json, console=_console())


@app.command()
def tables(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE... [TABLE]...", help="Sources as of collect, and tables (default: all)."),
    ],
    output_format: Annotated[Literal["md", "csv", "latex", "json"], typer.Option("--format")] = "md",
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
    """Print or export the tables of one or several sources."""
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


@app.command()
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


@app.command()
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
    write_plots(open_sources(opened), request, _console())


@app.command()
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
    write_report(open_sources(sources), output, options, _console())


@app.command()
def runs(
    sweep: SweepArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to write them to.")],
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Export what is there.")] = False,
) -> None:
    """Export the rankings of a sweep with `run_files: true`: TREC run files, judgements, and runs.csv, their index."""
    from orchestrator.run_export import export_runs
    from orchestrator.show import open_sweep

    store, record = open_sweep(sweep)
    export_runs(store, record, output, allow_missing=allow_missing, console=_console())


@app.command()
def ui(sweep: SweepArgument, port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 5000) -> None:
    """Open the MLflow UI of a sweep on 127.0.0.1."""
    from orchestrator.show import open_sweep
    from orchestrator.ui import serve_ui

    store, _ = open_sweep(sweep)
    raise typer.Exit(serve_ui(store, port, _console()))


@app.command()
def sync(sweep: SweepArgument) -> None:
    """Send to MLflow what it lacks of a sweep: after its server was away, or its database was lost."""
    from orchestrator.show import open_sweep
    from orchestrator.sync import sync_sweep

    raise typer.Exit(sync_sweep(*open_sweep(sweep), _console()))


@app.command()
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
    raise typer.Exit(run_doctor(*open_sweep(sweep), request, _console()))


DataArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Data sets, default groups, path:FOLDER, or a sweep file."),
]
data = typer.Typer(no_args_is_help=True, help="What data sets there are, what of them is here, and if it is right.")
app.add_typer(data, name="data")
app.command("submit")(submit)
app.add_typer(jobs, name="jobs")
app.add_typer(k8s, name="k8s")


@data.command("list")
def data_list(names: DataArgument = None, json: JsonOption = False) -> None:
    """List data sets with their groups and sizes, and what of them is on this machine."""
    from orchestrator.data_commands import list_data

    list_data(names or (), as_json=json, console=_console())


@data.command("describe")
def data_describe(names: DataArgument = None, json: JsonOption = False) -> None:
    """Show all that is known of data sets: source, licence, counts, measures, published figures."""
    from orchestrator.data_commands import describe_data

    describe_data(names or (), as_json=json, console=_console())


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

    raise typer.Exit(check_data(names or (), with_figures=figures, as_json=json, console=_console()))


@data.command("fetch")
def data_fetch(names: DataArgument = None, json: JsonOption = False) -> None:
    """Fetch what is missing and build it, before any GPU is held: nothing needs the hub afterwards."""
    from orchestrator.data_commands import fetch_data

    fetch_data(names or (), as_json=json, console=_console())


def main() -> None:
    """The console script: problems of the input end with exit code 2 and one line each."""
    try:
        app()
    except InputError as error:
        _print_problems(error.problems)
        sys.exit(2)
    except UnreadableError as error:
        _print_problems((Problem(where="densesweep", key="", message=f"{error} ({_DOCTOR})"),))
        sys.exit(2)


def _console(*, stderr: bool = False) -> Console:
    from orchestrator.terminal import plain_console

    return plain_console(stderr=stderr)


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2))


def _print_problems(problems: tuple[Problem, ...]) -> None:
    console = Console(stderr=True, soft_wrap=True)
    for problem in problems:
        console.print(f"error: {problem}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
