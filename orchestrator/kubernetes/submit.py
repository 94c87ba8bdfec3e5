"""Bring a sweep's objects into a cluster: server-side, once, whoever else submits the same name at the same moment."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.kubernetes.api import FIELD_MANAGER, OLDER_KUBERAY, Api, ConflictError, Object
from orchestrator.kubernetes.job_state import JobState, state_of
from orchestrator.kubernetes.resource_names import STORAGE_ANNOTATION
from orchestrator.program import command
from search_spaces.problems import InputError, Problem

SUBMISSION_ANNOTATION = "densesweep/submission"  # who of several submitters made it
_GONE_WITHIN_S = 180.0
_LOOK_EVERY_S = 1.0
_KEPT = ("name", "namespace", "labels", "annotations")

Verdict = tuple[Object, str]


def submit(api: Api, manifests: Sequence[Object], *, say: Callable[[str], None]) -> JobState:
    """Create the RayJob, then what it reads, as its property: what goes with it when it is deleted.

    The RayJob comes first, since its name is what two submitters compete for: the field of the submission can have one
    owner, and server-side apply refuses the second. Its pods wait for the ConfigMap, which follows at once.

    Raises:
        InputError: such a RayJob is there and has not ended, or is of another sweep folder; or the cluster refuses it.
    """
    rayjob = _rayjob(manifests)
    there = api.get("RayJob", rayjob["metadata"]["name"])
    if there is not None:
        _check_replaceable(api, there, rayjob)
        say(f"RayJob {rayjob['metadata']['name']} ended ({state_of(there)}) and is replaced; the sweep goes on")
        remove(api, there, say=say)
    return create(api, manifests)


def create(api: Api, manifests: Sequence[Object]) -> JobState:
    """Create objects that are not there. Raises InputError where another submitter was faster."""
    rayjob, submission = _rayjob(manifests), uuid.uuid4().hex[:12]
    metadata = rayjob["metadata"]
    marked = {**metadata, "annotations": {**metadata.get("annotations", {}), SUBMISSION_ANNOTATION: submission}}
    # A manager of its own for each submission: a second one does not own what the first one wrote, and is refused.
    try:
        made = api.apply({**rayjob, "metadata": marked}, manager=f"{FIELD_MANAGER}-{submission}")
    except ConflictError as error:
        raise _exists(api, metadata["name"], "was submitted by someone else just now") from error
    for manifest in manifests:
        if manifest["kind"] != "RayJob":
            api.apply(_owned(manifest, made), manager=FIELD_MANAGER, force=True)
    return state_of(made)


def tried(api: Api, manifests: Sequence[Object]) -> list[Verdict]:
    """What the API server would do with each object, which it does not keep: 'created' or 'configured'.

    Raises:
        InputError: with everything that it refuses, of all objects.
    """
    problems: list[Problem] = []
    verdicts: list[Verdict] = []
    for manifest in manifests:
        try:
            there = api.get(manifest["kind"], manifest["metadata"]["name"])
            kept = api.apply(manifest, manager=FIELD_MANAGER, dry_run=True, force=True)
            where = f"{manifest['kind']} {manifest['metadata']['name']}"
            problems += [Problem(where=where, key=field, message=OLDER_KUBERAY) for field in _left_out(manifest, kept)]
            verdicts.append((manifest, "created" if there is None else "configured"))
        except InputError as refused:
            problems += refused.problems
    if problems:
        raise InputError(problems)
    return verdicts


def _left_out(sent: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The fields that a server drops without a word, since the kind's definition there does not have them."""
    if isinstance(sent, Mapping) and isinstance(kept, Mapping):
        for name, value in sent.items():
            field = f"{path}.{name}" if path else name
            if name in kept:
                yield from _left_out(value, kept[name], field)
            elif value not in (None, "", [], {}):
                yield field
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for number, (ours, theirs) in enumerate(zip(sent, kept, strict=True)):
            yield from _left_out(ours, theirs, f"{path}[{number}]")


def remove(api: Api, there: Object, *, say: Callable[[str], None]) -> None:
    """Delete a RayJob and wait until it is gone; what belongs to it stays, for the one that takes its place.

    Raises:
        InputError: somebody else changed it meanwhile, or nobody takes it away.
    """
    name, state = there["metadata"]["name"], state_of(there)
    if not state.is_being_deleted:
        claim = {"metadata": {"resourceVersion": state.version, "annotations": {SUBMISSION_ANNOTATION: None}}}
        try:
            api.merge("RayJob", name, claim)
        except ConflictError as error:
            raise _exists(api, name, "changed just now: somebody else is at it") from error
        for kept in dependants(api, name):
            api.merge(kept["kind"], kept["metadata"]["name"], {"metadata": {"ownerReferences": None}})
        api.delete("RayJob", name)
    _wait_until_gone(api, state, say)


def manifest_again(there: Object) -> dict[str, Any]:
    """The manifest that an object was made of, from the object."""
    metadata = {key: value for key, value in there["metadata"].items() if key in _KEPT}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != SUBMISSION_ANNOTATION}
    spec = {key: there[key] for key in ("spec", "data") if key in there}
    return {
        "apiVersion": there["apiVersion"],
        "kind": there["kind"],
        "metadata": {**metadata, "annotations": annotations},
        **spec,
    }


def dependants(api: Api, name: str) -> list[Object]:
    """What was sent with a RayJob."""
    return [found for kind in ("ConfigMap", "PodDisruptionBudget") for found in api.of_sweep(kind, name)]


def _rayjob(manifests: Sequence[Object]) -> Object:
    [rayjob] = [manifest for manifest in manifests if manifest["kind"] == "RayJob"]
    return rayjob


def _owned(manifest: Object, owner: Object) -> Object:
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}


def _check_replaceable(api: Api, there: Object, rayjob: Object) -> None:
    name, state = there["metadata"]["name"], state_of(there)
    if state.is_to_rest and state.is_at_rest and not state.is_over:
        message = f"is suspended (to go on where it stopped: {command('k8s', 'resubmit', name, '-n', api.namespace)}; "
        message += "one of another file takes --name)"
        raise InputError([Problem(where=f"RayJob {name}", key="", message=message)])
    if not state.is_over:
        raise _exists(api, name, f"is there already: {state}")
    folders = [(one["metadata"].get("annotations") or {}).get(STORAGE_ANNOTATION) for one in (there, rayjob)]
    if folders[0] != folders[1]:
        message = (
            f"is there already, of another sweep folder: {folders[0]}, not {folders[1]} (--name gives another name)"
        )
        raise InputError([Problem(where=f"RayJob {name}", key="", message=message)])


def _exists(api: Api, name: str, what: str) -> InputError:
    goes_on = command("k8s", "status", name, "-n", api.namespace)
    hint = f"see how it goes with: {goes_on}; a second sweep of the same name takes --name"
    return InputError([Problem(where=f"RayJob {name}", key="", message=f"{what} ({hint})")])


def _wait_until_gone(api: Api, state: JobState, say: Callable[[str], None]) -> None:
    until, said = time.monotonic() + _GONE_WITHIN_S, False
    while (there := api.get("RayJob", state.name)) is not None and there["metadata"]["uid"] == state.uid:
        if time.monotonic() > until:
            message = f"was to be deleted, and is still there after {_GONE_WITHIN_S:g} s: does KubeRay's operator run?"
            raise InputError([Problem(where=f"RayJob {state.name}", key="", message=message)])
        if not said:
            say(f"waiting until KubeRay has taken the old RayJob {state.name} away")
            said = True
        time.sleep(_LOOK_EVERY_S)
