"""`densesweep k8s submit`: let the cluster look, send, and follow to the gain table where that was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console

from orchestrator.kubernetes.api import Api, Object, connect
from orchestrator.kubernetes.cancel import rayjob_of, resubmit
from orchestrator.kubernetes.dry_run import print_dry_run
from orchestrator.kubernetes.follow import Followed, follow
from orchestrator.kubernetes.logs import print_kept
from orchestrator.kubernetes.submit import submit, tried
from orchestrator.kubernetes.sweep_folder import UnseenError, open_folder, record_of
from orchestrator.program import command
from orchestrator.show_overview import print_results

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


@dataclass(frozen=True, kw_only=True)
class SubmitRequest:
    """What the user asked for."""

    manifests: Sequence[Object]
    context: str | None
    is_dry_run: bool
    watches: bool
    storage: str | None
    console: Console


def run_submit(request: SubmitRequest) -> int:
    """Send what was rendered of a sweep file; returns the exit code.

    Raises:
        InputError: with each refusal of the cluster; nothing is kept there then.
    """
    manifests = request.manifests
    rayjob = manifests[-1]["metadata"]
    console = request.console
    api = connect(rayjob["namespace"], request.context)
    verdicts = tried(api, manifests)
    if request.is_dry_run:
        named = [(one, f"would be {verdict}") for one, verdict in verdicts]
        print_dry_run(named, f"the API server {api.server} takes it, and has kept nothing", console)
        return EXIT_OK
    submit(api, manifests, say=_to(console))
    _say(console, f"RayJob {rayjob['name']} is submitted to namespace {api.namespace} of {api.context}")
    if request.watches:
        return watch(api, rayjob["name"], storage=request.storage, console=console)
    _say(console, f"To follow it: {command('k8s', 'logs', rayjob['name'], '-n', api.namespace, '--follow')}")
    return EXIT_OK


def run_resubmit(api: Api, name: str, *, watches: bool, storage: str | None, console: Console) -> int:
    """Start an ended or suspended one again; returns the exit code."""
    resubmit(api, name, say=_to(console))
    return watch(api, name, storage=storage, console=console) if watches else EXIT_OK


def watch(api: Api, name: str, *, storage: str | None, console: Console) -> int:
    """Follow a RayJob to its end and show what the sweep found; returns the exit code."""
    rayjob = rayjob_of(api, name)
    try:
        followed = follow(api, rayjob, say=_to(console), line=lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        status, cancel = (command("k8s", verb, name, "-n", api.namespace) for verb in ("status", "cancel"))
        _say(console, f"No longer watched; the sweep goes on. How it stands: {status}. To stop it: {cancel}")
        return EXIT_INTERRUPTED
    return _told(api, followed, rayjob, storage, console)


def _told(api: Api, followed: Followed, rayjob: Object, storage: str | None, console: Console) -> int:
    name = followed.state.name
    if followed.end == "gone":
        _say(console, f"RayJob {name} is gone: it was deleted. Its sweep folder is not")
        return EXIT_FAILED
    if followed.end == "suspended":
        again = command("k8s", "resubmit", name, "-n", api.namespace)
        _say(console, f"RayJob {name} was suspended. To go on where it stopped: {again}")
        return EXIT_FAILED
    if not followed.was_read:
        _show_from_folder(rayjob, storage, console)
    if followed.state.disagreement:
        _say(console, f"note: {followed.state.disagreement}")
    _say(console, f"RayJob {name} ended: {followed.state}")
    return EXIT_OK if followed.state.outcome == "succeeded" else EXIT_FAILED


def _show_from_folder(rayjob: Object, storage: str | None, console: Console) -> None:
    """What the driver's pod could not show: its kept output, else the tables."""
    try:
        print_kept(rayjob, storage)
        return
    except UnseenError as unseen:
        reason = unseen
    try:
        store = open_folder(rayjob, storage)
        if (record := record_of(store)) is not None:
            print_results(store, record, console)
            return
    except UnseenError as unseen:
        reason = unseen
    _say(console, f"The driver's output was not seen to its end, and {reason}")


def _to(console: Console) -> Callable[[str], None]:
    return lambda text: _say(console, text)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
