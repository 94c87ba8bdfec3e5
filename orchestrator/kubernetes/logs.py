"""`densesweep k8s logs`: what the driver printed, while its pods are there and after."""

from orchestrator.kept_logs import last_kept, last_kept_in
from orchestrator.kubernetes.api import Api, AwayError, Object
from orchestrator.kubernetes.cancel import rayjob_of
from orchestrator.kubernetes.driver_log import log_sources, read_log
from orchestrator.kubernetes.follow import follow
from orchestrator.kubernetes.job_state import state_of
from orchestrator.kubernetes.sweep_folder import UnseenError, open_folder
from search_spaces.problems import InputError, Problem


def show_logs(api: Api, name: str, *, storage: str | None, follows: bool) -> None:
    """Print them, and with `follows` go on until the RayJob ends.

    Raises:
        InputError: there is no such RayJob, or nothing that was printed is left.
    """
    if storage is not None and api.get("RayJob", name) is None:
        for line in last_kept_in(storage):
            _print_line(line)
        return
    rayjob = rayjob_of(api, name)
    if follows and not state_of(rayjob).is_at_rest:
        follow(api, rayjob, say=lambda text: None, line=_print_line)
        return
    if not _print_of_pods(api, rayjob):
        _print_kept_of(rayjob, storage)


def print_kept(rayjob: Object, storage: str | None) -> None:
    """Print what the sweep folder kept. Raises UnseenError where that cannot be read from here."""
    store = open_folder(rayjob, storage)
    try:
        for line in last_kept(store):
            _print_line(line)
    except KeyError:
        raise UnseenError(f"the sweep folder {store.uri} has kept no output yet") from None


def _print_of_pods(api: Api, rayjob: Object) -> bool:
    """Print the log of the last try's submitter; whether there is one that can be read."""
    begun = [source for source in log_sources(api, rayjob) if source.has_begun]
    if not begun:
        return False
    try:
        for line in read_log(api, begun[-1]):
            _print_line(line)
    except (AwayError, InputError):  # its node is gone, or the pod just went
        return False
    return True


def _print_kept_of(rayjob: Object, storage: str | None) -> None:
    try:
        print_kept(rayjob, storage)
    except UnseenError as unseen:
        name = rayjob["metadata"]["name"]
        message = f"no pod of it has printed anything that is left, and {unseen}"
        raise InputError([Problem(where=f"RayJob {name}", key="", message=message)]) from unseen


def _print_line(line: str) -> None:
    print(line, flush=True)
