"""The commands `densesweep k8s ...`. Each imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

k8s = typer.Typer(no_args_is_help=True, help="Run sweeps as RayJobs on a Kubernetes cluster with KubeRay.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (YAML).")]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME|PATH", help="The cluster's settings, where the file has none of its own."),
]
NameOption = Annotated[str | None, typer.Option("--name", help="Of the RayJob (default: the sweep's).")]


@k8s.command("render")
def render(
    file: FileArgument,
    profile: ProfileOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A folder for one file per object (default: standard output).")
    ] = None,
    name: NameOption = None,
) -> None:
    """Print what would be applied: the RayJob and the ConfigMap with the sweep file; needs no cluster."""
    from orchestrator.kubernetes.manifest_files import as_yaml, write_files
    from orchestrator.kubernetes.render import rendered

    manifests = rendered(file, profile=profile, name=name)
    if output is None:
        print(as_yaml(manifests), end="")
    else:
        for path in write_files(manifests, output):
            print(path)


@k8s.command("preflight", hidden=True)
def preflight(
    storage: Annotated[str, typer.Option("--storage", help="The sweep folder.")],
    expect: Annotated[str, typer.Option("--expect", metavar="NAME=VERSION,...", help="What the image has to hold.")],
) -> None:
    """Look whether trials can run in this pod: its versions, and whether it reaches the sweep folder."""
    from orchestrator.kubernetes.preflight import parse_expected
    from orchestrator.kubernetes.preflight import preflight as look

    look(storage, parse_expected(expect))
