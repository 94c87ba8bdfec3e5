"""`densesweep k8s status`: how a sweep stands in its cluster, and in its folder."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from orchestrator.kubernetes.api import Api, Object
from orchestrator.kubernetes.cancel import rayjob_of
from orchestrator.kubernetes.job_state import state_of
from orchestrator.kubernetes.job_view import ClusterView, JobView, view_of
from orchestrator.kubernetes.sweep_folder import UnseenError, folder_of, open_folder, record_of
from orchestrator.program import command
from orchestrator.show import print_status


def show_status(api: Api, name: str, *, storage: str | None, as_json: bool, console: Console) -> None:
    """Print it. Raises InputError where there is no such RayJob."""
    rayjob = rayjob_of(api, name)
    view = view_of(api, rayjob)
    if as_json:
        print(json.dumps(asdict(view), indent=2))
        return
    _print_view(api, view, console)
    console.print()
    _print_sweep(rayjob, storage, console)


def show_all(api: Api, console: Console) -> None:
    """A line for each RayJob of the namespace."""
    grid = Table(box=None, pad_edge=False)
    for header in ("RayJob", "deployment", "Ray's job", "started", "ended", "sweep folder"):
        grid.add_column(header, overflow="fold")
    for rayjob in sorted(api.all("RayJob"), key=lambda job: job["metadata"]["creationTimestamp"]):
        grid.add_row(*_cells(rayjob))
    if not grid.row_count:
        console.print(f"There is no RayJob in namespace {api.namespace}.", markup=False)
        return
    console.print(grid)


def _cells(rayjob: Object) -> tuple[str, ...]:
    state = state_of(rayjob)
    try:
        folder = folder_of(rayjob)
    except UnseenError:
        folder = ""
    return state.name, state.deployment, state.job, state.started_at, state.ended_at, folder


def _print_view(api: Api, view: JobView, console: Console) -> None:
    state = view.state

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    say(f"RayJob {state.name} in namespace {api.namespace} of {api.context}: {state}")
    if state.started_at:
        say(f"started {state.started_at}" + (f", ended {state.ended_at}" if state.ended_at else ""))
    if state.disagreement:
        say(f"note: {state.disagreement}")
    if state.is_being_deleted:
        say("note: it is being deleted")
    if state.is_to_rest and state.queue and not state.is_over:
        say(f"note: it waits until queue '{state.queue}' lets it in")
    say(_cluster_line(view.cluster) if view.cluster else "Ray cluster: there is none now")
    if view.pods:
        grid = Table(box=None, pad_edge=False)
        for header in ("pod", "part", "phase", "restarts", "node"):
            grid.add_column(header, overflow="fold")
        for pod in view.pods:
            grid.add_row(pod.name, pod.part, pod.phase, str(pod.num_restarts), pod.node)
        console.print(grid)
    for trouble in view.troubles:
        say(f"trouble: {trouble}")
    if state.outcome == "failed":
        say(f"Why: {command('k8s', 'logs', state.name, '-n', api.namespace)}")


def _cluster_line(cluster: ClusterView) -> str:
    reason = f" ({cluster.reason})" if cluster.reason else ""
    workers = f"{cluster.num_ready} of {cluster.num_wanted} workers ready, {cluster.num_most} at most"
    return f"Ray cluster {cluster.name}: {cluster.state}{reason}; {workers}"


def _print_sweep(rayjob: Object, storage: str | None, console: Console) -> None:
    try:
        store = open_folder(rayjob, storage)
    except UnseenError as unseen:
        console.print(f"Progress is not shown: {unseen}", markup=False, highlight=False, soft_wrap=True)
        return
    record = record_of(store)
    if record is None:
        console.print(f"The sweep has not begun to write to {store.uri}.", markup=False, soft_wrap=True)
        return
    print_status(store, record, console)
