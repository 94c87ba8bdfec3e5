"""Stop a sweep that runs in a cluster, and start it again where it stopped."""

from collections.abc import Callable

from orchestrator.kubernetes.api import Api, ConflictError, NotFoundError, Object
from orchestrator.kubernetes.job_state import JobState, state_of
from orchestrator.kubernetes.submit import create, dependants, manifest_again, remove
from orchestrator.program import command
from search_spaces.problems import InputError, Problem


def cancel(api: Api, name: str, *, delete: bool, say: Callable[[str], None]) -> None:
    """Stop it: its RayJob is suspended, which ends the Ray cluster and keeps the object, or else deleted.

    Raises:
        InputError: there is no such RayJob.
    """
    there = rayjob_of(api, name)
    state = state_of(there)
    again = command("k8s", "resubmit", name, "-n", api.namespace)
    if delete:
        remove(api, there, say=say)
        say(f"RayJob {name} is deleted, as asked. The sweep folder is untouched: 'densesweep k8s submit FILE' goes on")
        return
    if state.is_over:
        say(f"RayJob {name} has ended already: {state}. Nothing is to be cancelled; to run it again: {again}")
        return
    if state.is_to_rest and state.is_at_rest:
        say(f"RayJob {name} is suspended already. To go on where it stopped: {again}")
        return
    if why := _why_not_suspended(state):
        remove(api, there, say=say)
        say(
            f"RayJob {name} is deleted, not suspended, since {why}. 'densesweep k8s submit FILE' goes on with the sweep"
        )
        return
    _set_suspended(api, state, suspended=True)
    say(
        f"RayJob {name} is suspended: KubeRay ends its Ray cluster and keeps the RayJob, so that it can go on. "
        f"To go on where it stopped: {again}"
    )


def resubmit(api: Api, name: str, *, say: Callable[[str], None]) -> JobState:
    """Start a sweep again with the folder that it had, so that only what is left runs.

    Raises:
        InputError: there is no such RayJob, or it runs.
    """
    there = rayjob_of(api, name)
    state = state_of(there)
    if state.is_to_rest and not state.queue and not state.is_over:
        resumed = _set_suspended(api, state, suspended=False)
        say(f"RayJob {name} is no longer suspended: KubeRay makes a new Ray cluster, and the sweep goes on")
        return resumed
    if not state.is_over:
        message = f"has not ended: {state} (to end it first: {command('k8s', 'cancel', name, '-n', api.namespace)})"
        raise InputError([Problem(where=f"RayJob {name}", key="", message=message)])
    manifests = [manifest_again(one) for one in (*dependants(api, name), there)]
    if state.queue:
        manifests[-1]["spec"]["suspend"] = True  # until its queue lets it in
    remove(api, there, say=say)
    made = create(api, manifests)
    say(f"RayJob {name} is submitted again with the same sweep folder: what is finished is not run again")
    return made


def rayjob_of(api: Api, name: str) -> Object:
    """The RayJob of this name. Raises InputError where there is none, with those that there are."""
    if (there := api.get("RayJob", name)) is not None:
        return there
    others = sorted(one["metadata"]["name"] for one in api.all("RayJob"))
    known = f"there are: {', '.join(others)}" if others else "there is none at all"
    message = (
        f"is not in namespace {api.namespace} ({known}; -n names another namespace). One whose time after its end "
    )
    message += "is over was deleted: its sweep folder is not, and 'densesweep k8s submit FILE' goes on with it"
    raise NotFoundError([Problem(where=f"RayJob {name}", key="", message=message)])


def _why_not_suspended(state: JobState) -> str | None:
    if state.queue:
        return f"its queue '{state.queue}' would start a suspended one again"
    if not state.shuts_down:
        return "KubeRay suspends only what has shutdownAfterJobFinishes, which deletion rules exclude"
    return None


def _set_suspended(api: Api, state: JobState, *, suspended: bool) -> JobState:
    change = {"metadata": {"resourceVersion": state.version}, "spec": {"suspend": suspended}}
    try:
        return state_of(api.merge("RayJob", state.name, change))
    except ConflictError:  # its status changed meanwhile, as it does all the time: look once more
        now = state_of(rayjob_of(api, state.name))
        if now.uid != state.uid or now.is_over:
            message = f"ended meanwhile: {now}"
            raise InputError([Problem(where=f"RayJob {state.name}", key="", message=message)]) from None
        return state_of(api.merge("RayJob", state.name, {"spec": {"suspend": suspended}}))
