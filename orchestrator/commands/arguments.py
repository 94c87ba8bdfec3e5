"""Arguments and options that several commands take, each said once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

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
