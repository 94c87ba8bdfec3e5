"""One look at what runs for a sweep in a cluster: its RayJob, its Ray cluster, its pods and what ails them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.kubernetes.api import Api, ForbiddenError, Object
from orchestrator.kubernetes.job_state import JobState, state_of
from orchestrator.kubernetes.pod_troubles import PodTrouble, troubles_of


@dataclass(frozen=True, kw_only=True)
class PodView:
    """A pod: `part` is head, submitter or the name of its worker group."""

    name: str
    part: str
    phase: str
    node: str
    num_restarts: int


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A Ray cluster: how many of the workers that are wanted are ready."""

    name: str
    state: str
    reason: str
    num_ready: int
    num_wanted: int
    num_most: int


@dataclass(frozen=True, kw_only=True)
class JobView:
    """The whole, at one moment."""

    state: JobState
    cluster: ClusterView | None
    pods: tuple[PodView, ...]
    troubles: tuple[PodTrouble, ...]


def view_of(api: Api, rayjob: Object) -> JobView:
    """Look at what belongs to a RayJob."""
    state = state_of(rayjob)
    cluster = api.get("RayCluster", state.cluster) if state.cluster else None
    pods = pods_of(api, state)
    troubles = [trouble for pod in pods for trouble in troubles_of(pod, _events(api, pod))]
    return JobView(
        state=state,
        cluster=_cluster(cluster) if cluster else None,
        pods=tuple(_pod(pod) for pod in pods),
        troubles=tuple(troubles),
    )


def pods_of(api: Api, state: JobState) -> list[Object]:
    """The pods of a RayJob, those of former tries left out; the head's and the submitter's come first."""
    found = api.of_sweep("Pod", state.name)
    mine = [pod for pod in found if _label(pod, "ray.io/cluster") in ("", state.cluster)]
    return sorted(mine, key=lambda pod: (_RANKS.get(_part(pod), 2), pod["metadata"]["name"]))


_RANKS = {"head": 0, "submitter": 1}


def _events(api: Api, pod: Object) -> list[Object]:
    if pod.get("status", {}).get("phase") != "Pending":
        return []
    try:
        return api.events_of("Pod", pod["metadata"]["name"])
    except ForbiddenError:  # they tell more of a pod that waits, and nothing depends on them
        return []


def _cluster(cluster: Object) -> ClusterView:
    status = cluster.get("status") or {}
    unready = [c for c in status.get("conditions") or [] if c.get("status") == "False" and c.get("message")]
    return ClusterView(
        name=cluster["metadata"]["name"],
        state=status.get("state") or "not ready",
        reason=" ".join((status.get("reason") or (unready[0]["message"] if unready else "")).split()),
        num_ready=status.get("readyWorkerReplicas") or 0,
        num_wanted=status.get("desiredWorkerReplicas") or 0,
        num_most=status.get("maxWorkerReplicas") or 0,
    )


def _pod(pod: Object) -> PodView:
    status = pod.get("status") or {}
    return PodView(
        name=pod["metadata"]["name"],
        part=_part(pod),
        phase=_phase(pod, status),
        node=pod.get("spec", {}).get("nodeName") or "",
        num_restarts=sum(c.get("restartCount", 0) for c in status.get("containerStatuses") or []),
    )


def _phase(pod: Object, status: Mapping[str, Any]) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    phase = str(status.get("phase") or "Pending")
    containers = status.get("containerStatuses") or []
    if phase == "Running" and not all(c.get("ready") for c in containers):
        return "Running, not ready"
    return phase


def _part(pod: Object) -> str:
    if _label(pod, "ray.io/node-type") == "head":
        return "head"
    return _label(pod, "ray.io/group") or "submitter"


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(name, ""))
