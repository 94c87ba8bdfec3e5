"""The commands `densesweep k8s ...`. Each imports what it needs when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from orchestrator.kubernetes.api import Api

k8s = typer.Typer(no_args_is_help=True, help="Run sweeps as RayJobs on a Kubernetes cluster with KubeRay.")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (YAML).")]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME|PATH", help="The cluster's settings, where the file has none of its own."),
]
NamedArgument = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A RayJob, or the sweep file it is of.")]
NamespaceOption = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Of the cluster (default: the file's, else the kubeconfig's).")
]
ContextOption = Annotated[str | None, typer.Option("--context", help="Of the kubeconfig (default: its current one).")]
FolderOption = Annotated[
    str | None, typer.Option("--storage", help="The sweep folder as seen from here, such as a mount of its claim.")
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


@k8s.command("submit")
def submit(
    file: FileArgument,
    profile: ProfileOption = None,
    name: NameOption = None,
    dry_run: Annotated[
        Literal["client", "server"] | None,
        typer.Option("--dry-run", help="Send nothing (client), or let the API server look and keep nothing (server)."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its tables.")] = False,
    storage: FolderOption = None,
    context: ContextOption = None,
) -> None:
    """Run a sweep on the cluster, or go on with one that ended there; what is finished is not run again."""
    from orchestrator.kubernetes.dry_run import print_dry_run
    from orchestrator.kubernetes.render import rendered
    from orchestrator.kubernetes.target import check_client
    from orchestrator.terminal import plain_console

    manifests = rendered(file, profile=profile, name=name)
    if dry_run == "client":
        verdicts = [(manifest, "would be sent") for manifest in manifests]
        print_dry_run(verdicts, "nothing was sent, and no cluster was asked", plain_console())
        return
    check_client()
    from orchestrator.kubernetes.submit_command import SubmitRequest, run_submit

    request = SubmitRequest(
        manifests=manifests,
        context=context,
        is_dry_run=dry_run == "server",
        watches=watch,
        storage=storage,
        console=plain_console(),
    )
    raise typer.Exit(run_submit(request))


@k8s.command("status")
def status(
    named: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", help="A RayJob, or the sweep file it is of (default: all).")
    ] = None,
    profile: ProfileOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    storage: FolderOption = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show how a sweep stands: RayJob, Ray cluster, pods and what ails them, Ray's job, and the sweep's progress."""
    from orchestrator.terminal import plain_console

    if named is None:
        api = _connected(namespace, context)
        from orchestrator.kubernetes.status import show_all

        show_all(api, plain_console())
        return
    name, api = _target(named, profile, namespace, context)
    from orchestrator.kubernetes.status import show_status

    show_status(api, name, storage=storage, as_json=json, console=plain_console())


@k8s.command("logs")
def logs(
    named: NamedArgument,
    profile: ProfileOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    storage: FolderOption = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it ends.")] = False,
) -> None:
    """Print what the driver printed: of its pods, or once they are gone what the sweep folder kept."""
    name, api = _target(named, profile, namespace, context)
    from orchestrator.kubernetes.logs import show_logs

    show_logs(api, name, storage=storage, follows=follow)


@k8s.command("cancel")
def cancel(
    named: NamedArgument,
    profile: ProfileOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the RayJob, instead of suspending it.")] = False,
) -> None:
    """Stop a sweep: suspend its RayJob, or delete it where suspending would not stop it; the sweep folder stays."""
    name, api = _target(named, profile, namespace, context)
    from orchestrator.kubernetes.cancel import cancel as stop

    stop(api, name, delete=delete, say=_say)


@k8s.command("resubmit")
def resubmit(
    named: NamedArgument,
    profile: ProfileOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its tables.")] = False,
    storage: FolderOption = None,
) -> None:
    """Start a sweep again that ended or was cancelled, with its sweep folder: what is finished is not run again."""
    from orchestrator.terminal import plain_console

    name, api = _target(named, profile, namespace, context)
    from orchestrator.kubernetes.submit_command import run_resubmit

    raise typer.Exit(run_resubmit(api, name, watches=watch, storage=storage, console=plain_console()))


@k8s.command("doctor")
def doctor(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A sweep file, whose names to look at.")] = None,
    profile: ProfileOption = None,
    name: NameOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Check what sweeps need of the cluster; exit code 0: all is there, 1: something is at fault."""
    from orchestrator.kubernetes.render import rendered
    from orchestrator.terminal import plain_console

    manifests = rendered(file, profile=profile, name=name) if file else []
    of_file = manifests[-1]["metadata"]["namespace"] if manifests else None
    api = _connected(namespace or of_file, context)
    from orchestrator.kubernetes.doctor import run_doctor

    raise typer.Exit(run_doctor(api, manifests, plain_console()))


def _target(named: str, profile: str | None, namespace: str | None, context: str | None) -> "tuple[str, Api]":
    from orchestrator.kubernetes.target import target_of

    target = target_of(named, profile=profile, namespace=namespace)
    return target.name, _connected(target.namespace, context)


def _connected(namespace: str | None, context: str | None) -> "Api":
    from orchestrator.kubernetes.target import check_client

    check_client()
    from orchestrator.kubernetes.api import connect

    return connect(namespace, context)


def _say(text: str) -> None:
    from orchestrator.terminal import plain_console

    plain_console().print(text, markup=False, highlight=False, soft_wrap=True)
