"""`densesweep k8s doctor`: what a sweep needs of a cluster, looked at before anything is sent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from orchestrator.kubernetes.api import Api, AwayError, ForbiddenError, Object, UnknownKindError
from orchestrator.kubernetes.quantities import number_of
from search_spaces.problems import InputError
from search_spaces.sizes import size_text

Severity = Literal["ok", "note", "fault"]
# What the commands do: (what for, verb, group, resource, subresource). `k8s/base/rbac.yaml` allows just this.
NEEDED = (
    ("submit", "create", "ray.io", "rayjobs", ""),
    ("submit", "patch", "ray.io", "rayjobs", ""),
    ("submit", "create", "", "configmaps", ""),
    ("submit", "patch", "", "configmaps", ""),
    ("submit", "get", "", "configmaps", ""),
    ("status", "get", "ray.io", "rayjobs", ""),
    ("status", "list", "ray.io", "rayjobs", ""),
    ("status", "get", "ray.io", "rayclusters", ""),
    ("status", "list", "", "pods", ""),
    ("status", "list", "", "events", ""),
    ("watch", "watch", "ray.io", "rayjobs", ""),
    ("logs", "get", "", "pods", "log"),
    ("cancel", "delete", "ray.io", "rayjobs", ""),
    ("resubmit", "list", "", "configmaps", ""),
)
_CRDS = ("rayjobs.ray.io", "rayclusters.ray.io")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    severity: Severity
    what: str
    detail: str
    remedy: str = ""


def examine(api: Api, manifests: Sequence[Object] = ()) -> Iterator[Check]:
    """What the commands need of the cluster, and what these manifests name in it."""
    yield from _kinds(api)
    yield from _rights(api)
    for manifest in manifests:
        if manifest["kind"] == "RayJob":
            yield from _named(api, manifest)
            yield from _room(api, manifest)
    if manifests:
        yield _taken(api, manifests)


def run_doctor(api: Api, manifests: Sequence[Object], console: Console) -> int:
    """Print what was found; returns 0 where nothing is at fault, else 1."""
    console.print(f"namespace {api.namespace} of {api.context} ({api.server})", markup=False, highlight=False)
    grid = Table(box=None, pad_edge=False)
    for header in ("severity", "what", "found", "remedy"):
        grid.add_column(header, overflow="fold")
    try:
        checks = list(examine(api, manifests))
    except AwayError as away:
        checks = [Check(severity="fault", what="API server", detail=str(away), remedy="is the kubeconfig's one up?")]
    for check in checks:
        grid.add_row(check.severity, check.what, check.detail, check.remedy)
    console.print(grid)
    return 1 if any(check.severity == "fault" for check in checks) else 0


def _kinds(api: Api) -> Iterator[Check]:
    for kind in ("RayJob", "RayCluster"):
        try:
            num = len(api.all(kind))
        except UnknownKindError:
            yield Check(
                severity="fault",
                what=f"kind {kind}",
                detail="unknown",
                remedy="install KubeRay 1.4 or newer (helm install kuberay-operator kuberay/kuberay-operator)",
            )
        except ForbiddenError:
            yield Check(severity="note", what=f"kind {kind}", detail="known, and its objects may not be listed")
        else:
            yield Check(severity="ok", what=f"kind {kind}", detail=f"{num} in the namespace")


def _rights(api: Api) -> Iterator[Check]:
    denied: dict[str, list[str]] = {}
    for purpose, verb, group, resource, subresource in NEEDED:
        if not api.may(verb, group, resource, subresource):
            named = "/".join(part for part in (resource, subresource) if part)
            denied.setdefault(purpose, []).append(f"{verb} {named}")
    for purpose, rights in denied.items():
        remedy = "bind the role densesweep-submitter of k8s/base/rbac.yaml to this user"
        yield Check(severity="fault", what=f"rights for {purpose}", detail=f"no {', '.join(rights)}", remedy=remedy)
    if not denied:
        yield Check(severity="ok", what="rights", detail="all that the commands do")


def _named(api: Api, rayjob: Object) -> Iterator[Check]:
    """Whether what the pods name is there: they would wait for it without an end."""
    templates = list(pod_templates(rayjob))
    for kind, names, remedy in (
        ("ServiceAccount", _accounts(templates), "kubectl apply -k k8s/base makes the one of densesweep"),
        ("PersistentVolumeClaim", _claims(templates), "make the claim, ReadWriteMany, before the sweep"),
        ("PriorityClass", _priorities(templates), "an administrator makes priority classes"),
        ("LocalQueue", _queues(rayjob), "an administrator makes queues of Kueue (k8s/components/kueue)"),
    ):
        for name in names:
            yield _is_there(api, kind, name, remedy)
    if secrets := _secrets(templates):
        # Whoever may see whether one is there may read it: that is not asked for.
        named = ", ".join(secrets)
        yield Check(severity="note", what="secrets", detail=f"{named}: not looked at, since looking is reading")


def _is_there(api: Api, kind: str, name: str, remedy: str) -> Check:
    what = f"{kind} {name}"
    try:
        found = api.get(kind, name)
    except ForbiddenError:
        return Check(severity="note", what=what, detail="may not be looked at")
    except UnknownKindError:
        return Check(severity="fault", what=what, detail="the cluster has no such kind", remedy=remedy)
    if found is None:
        return Check(severity="fault", what=what, detail="is not there", remedy=remedy)
    if kind == "PersistentVolumeClaim":
        return _claim(found, what, _num_nodes(api))
    return Check(severity="ok", what=what, detail="is there")


def _num_nodes(api: Api) -> int | None:
    try:
        return len(api.all("Node"))
    except ForbiddenError:
        return None


def _claim(claim: Object, what: str, num_nodes: int | None) -> Check:
    phase = (claim.get("status") or {}).get("phase", "Pending")
    modes = (claim.get("spec") or {}).get("accessModes") or []
    if "ReadWriteMany" not in modes:
        severity: Severity = "fault" if num_nodes is not None and num_nodes > 1 else "note"
        remedy = "pods on several nodes mount it at once: make it ReadWriteMany, but on a cluster of one node"
        return Check(severity=severity, what=what, detail=f"is {', '.join(modes)}", remedy=remedy)
    if phase != "Bound":
        remedy = "bound with the first pod where its class waits for one, else see 'kubectl describe pvc'"
        return Check(severity="note", what=what, detail=f"is {phase}", remedy=remedy)
    return Check(severity="ok", what=what, detail="is bound, ReadWriteMany")


def _room(api: Api, rayjob: Object) -> Iterator[Check]:
    """Whether some node is large enough for a pod of each kind; nodes that are yet to be made are not seen."""
    try:
        nodes = api.all("Node")
    except ForbiddenError:
        yield Check(severity="note", what="nodes", detail="may not be looked at: that each pod fits one is not known")
        return
    for part, template in _parts(rayjob):
        asked = _asked(template)
        selector = template["spec"].get("nodeSelector") or {}
        able = [node for node in nodes if _fits(node, asked, selector)]
        what = f"a node for {part}"
        if able:
            yield Check(severity="ok", what=what, detail=f"{len(able)} of {len(nodes)} nodes are large enough")
            continue
        wants = ", ".join(f"{_amount(name, value)} {name}" for name, value in asked.items())
        with_labels = f" and has {selector}" if selector else ""
        detail = f"none of {len(nodes)} nodes gives {wants}{with_labels}"
        yield Check(
            severity="note", what=what, detail=detail, remedy="fine where nodes are made on demand; else ask for less"
        )


def _taken(api: Api, manifests: Sequence[Object]) -> Check:
    """What the API server itself says of the manifests."""
    from orchestrator.kubernetes.submit import tried

    try:
        tried(api, manifests)
    except InputError as refused:
        return Check(severity="fault", what="dry run", detail="; ".join(str(problem) for problem in refused.problems))
    return Check(severity="ok", what="dry run", detail="the API server takes every object")


def pod_templates(rayjob: Object) -> Iterator[Mapping[str, Any]]:
    """The templates of all its pods."""
    yield from (template for _, template in _parts(rayjob))
    if submitter := rayjob["spec"].get("submitterPodTemplate"):
        yield submitter


def _parts(rayjob: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    cluster = rayjob["spec"]["rayClusterSpec"]
    yield "the head", cluster["headGroupSpec"]["template"]
    for group in cluster.get("workerGroupSpecs") or []:
        yield f"group {group['groupName']}", group["template"]


def _accounts(templates: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for t in templates if (name := t["spec"].get("serviceAccountName"))})


def _priorities(templates: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for t in templates if (name := t["spec"].get("priorityClassName"))})


def _claims(templates: Sequence[Mapping[str, Any]]) -> list[str]:
    volumes = [volume for t in templates for volume in t["spec"].get("volumes") or []]
    return sorted({v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v})


def _secrets(templates: Sequence[Mapping[str, Any]]) -> list[str]:
    containers = [container for t in templates for container in t["spec"]["containers"]]
    sources = [source for container in containers for source in container.get("envFrom") or []]
    volumes = [volume for t in templates for volume in t["spec"].get("volumes") or []]
    named = {source["secretRef"]["name"] for source in sources if "secretRef" in source}
    return sorted(named | {volume["secret"]["secretName"] for volume in volumes if "secret" in volume})


def _queues(rayjob: Object) -> list[str]:
    from orchestrator.kubernetes.job_state import QUEUE_LABEL

    queue = (rayjob["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    return [queue] if queue else []


def _asked(template: Mapping[str, Any]) -> dict[str, float]:
    """What a pod of it asks of its node: init containers come before the others, not beside them."""
    asked: dict[str, float] = {}
    for container in template["spec"]["containers"]:
        for name, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            asked[name] = asked.get(name, 0.0) + float(number_of(quantity) or 0)
    return asked


def _amount(name: str, value: float) -> str:
    return size_text(int(value)) if name == "memory" else f"{value:g}"


def _fits(node: Object, asked: Mapping[str, float], selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    gives = (node.get("status") or {}).get("allocatable") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return False
    return all(float(number_of(gives.get(name, 0)) or 0) >= value for name, value in asked.items())
