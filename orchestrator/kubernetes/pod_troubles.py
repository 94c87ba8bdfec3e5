"""What keeps a pod from its work: the reason as Kubernetes has it, and what to do about it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_OUT_OF_MEMORY_EXIT = 137
# The reason of a container that waits, and what helps.
_WAITING = {
    "ImagePullBackOff": "the image cannot be pulled: {image}. Check its name and tag (cluster.image), that the nodes "
    "reach its registry, and for a private one that the service account has an imagePullSecret",
    "ErrImagePull": "the image cannot be pulled: {image}. Check its name and tag (cluster.image), that the nodes reach "
    "its registry, and for a private one that the service account has an imagePullSecret",
    "InvalidImageName": "'{image}' is no name of an image (cluster.image)",
    "ErrImageNeverPull": "the image {image} is not on the node, and its pull policy is Never: load it there (kind load "
    "docker-image), or let it be pulled",
    "CreateContainerConfigError": "a secret or ConfigMap that the pod names is not in the namespace, or lacks a key: "
    "create it, and the pod starts by itself",
    "CreateContainerError": "the container cannot be made: what it is to run may not be in the image, or a volume is "
    "used in a way that it does not allow",
    "RunContainerError": "what the container is to run cannot be started: is this densesweep's image?",
    "CrashLoopBackOff": "the container ends as soon as it starts: see why with 'kubectl logs {pod} --previous'",
}
_PROGRESS = ("ContainerCreating", "PodInitializing", "")


@dataclass(frozen=True, kw_only=True)
class PodTrouble:
    """What is wrong with one pod."""

    pod: str
    reason: str
    detail: str
    remedy: str

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"pod {self.pod}: {self.reason}{detail}: {self.remedy}"


def troubles_of(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]] = ()) -> list[PodTrouble]:
    """What is wrong with a pod, by its status and by what the cluster said of it."""
    return [*_unplaced(pod), *_evicted(pod), *_of_containers(pod), *_of_volumes(pod, events)]


def _unplaced(pod: Mapping[str, Any]) -> Iterator[PodTrouble]:
    for condition in pod.get("status", {}).get("conditions") or []:
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            said = _line(condition.get("message"))
            if condition.get("reason") == "SchedulingGated":
                yield _trouble(pod, "SchedulingGated", said, "it waits for its queue to let it in: nothing is wrong")
                continue
            yield _trouble(pod, condition.get("reason") or "Unschedulable", said, _remedy_unplaced(said, pod))


def _remedy_unplaced(said: str, pod: Mapping[str, Any]) -> str:
    """What helps a pod that fits no node, by what the scheduler says; several may be true at once."""
    helps = []
    if lacking := sorted(set(re.findall(r"Insufficient ([\w./-]*\w)", said))):
        helps.append(
            f"no node has {_asked(pod, lacking)} free: ask for less in its group, free some, or let the nodes grow "
            "(a node that is being made takes minutes)"
        )
    if "taint" in said:
        helps.append("nodes are tainted against it: its group needs tolerations (spot and GPU nodes have taints)")
    if "node affinity" in said or "node selector" in said:
        helps.append("no node has the labels that it selects: see them with 'kubectl get nodes --show-labels'")
    if "unbound" in said or "persistentvolumeclaim" in said.lower():
        helps.append("its volume claim is not bound: see 'kubectl get pvc', and make it before the sweep")
    if "volume node affinity" in said:
        helps.append("its volume is bound to other nodes: storage has to be shared (ReadWriteMany)")
    return "; ".join(helps) or "see 'kubectl describe pod " + pod["metadata"]["name"] + "'"


def _asked(pod: Mapping[str, Any], names: Sequence[str]) -> str:
    """What its first container, which is Ray's, asks for of these resources."""
    requests = (pod["spec"]["containers"][0].get("resources") or {}).get("requests") or {}
    return ", ".join(f"{requests[name]} {name}" if name in requests else name for name in names)


def _evicted(pod: Mapping[str, Any]) -> Iterator[PodTrouble]:
    status = pod.get("status", {})
    reason = status.get("reason")
    if status.get("phase") != "Failed" or not reason:
        return
    if reason == "Evicted":
        remedy = "its node ran low; another pod takes its place, and trials go on from their checkpoints. Where it "
        remedy += "comes again, ask for the memory and disk that trials take"
    elif reason in ("NodeShutdown", "Terminated", "Preempted", "NodeLost"):
        remedy = "its node was taken away, as spot nodes are; trials go on elsewhere from their checkpoints"
    else:
        remedy = f"see 'kubectl describe pod {pod['metadata']['name']}'"
    yield _trouble(pod, reason, _line(status.get("message")), remedy)


def _of_containers(pod: Mapping[str, Any]) -> Iterator[PodTrouble]:
    status = pod.get("status", {})
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state, last = container.get("state") or {}, container.get("lastState") or {}
        waiting = state.get("waiting") or {}
        ended = state.get("terminated") or (last.get("terminated") if waiting else None) or {}
        killed = next((s["terminated"] for s in (state, last) if _was_out_of_memory(s.get("terminated"))), None)
        if killed:
            yield _out_of_memory(pod, container, killed)
        elif waiting.get("reason", "") not in _PROGRESS:
            yield _waiting(pod, container, waiting, ended)
        elif state.get("terminated") and state["terminated"].get("exitCode"):
            code, said = state["terminated"]["exitCode"], _line(state["terminated"].get("message"))
            remedy = f"its log says more: kubectl logs {pod['metadata']['name']} -c {container['name']}"
            detail = f"exit code {code}; {said}"
            yield _trouble(pod, state["terminated"].get("reason") or "Error", detail, remedy)


def _was_out_of_memory(ended: Mapping[str, Any] | None) -> bool:
    return bool(ended) and ended is not None and ended.get("reason") == "OOMKilled"


def _out_of_memory(pod: Mapping[str, Any], container: Mapping[str, Any], ended: Mapping[str, Any]) -> PodTrouble:
    limits = next(
        (
            (c.get("resources") or {}).get("limits") or {}
            for c in pod["spec"]["containers"]
            if c["name"] == container["name"]
        ),
        {},
    )
    limit = f" of {limits['memory']}" if "memory" in limits else ""
    is_head = (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
    helps = (
        "give the head more memory (4 GiB at least)"
        if is_head
        else (
            "give its group more memory, or let fewer trials run on it at once (resources.at_once, resources.memory), "
            "or lower chunk_size, which changes no result"
        )
    )
    again = f", {container['restartCount']} times" if container.get("restartCount", 0) > 1 else ""
    detail = f"container {container['name']} took more than its limit{limit}{again}"
    return _trouble(pod, "OOMKilled", detail, helps)


def _waiting(
    pod: Mapping[str, Any], container: Mapping[str, Any], waiting: Mapping[str, Any], ended: Mapping[str, Any]
) -> PodTrouble:
    reason = waiting["reason"]
    told = _WAITING.get(reason, "see 'kubectl describe pod {pod}'")
    code = f"exit code {ended['exitCode']}; " if ended else ""
    remedy = told.format(image=container.get("image", "?"), pod=pod["metadata"]["name"])
    return _trouble(pod, reason, code + _line(waiting.get("message")), remedy)


def _of_volumes(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Iterator[PodTrouble]:
    """A volume that cannot be mounted shows in no status: the container is said to be made."""
    if pod.get("status", {}).get("phase") != "Pending":
        return
    for event in events:
        if event.get("reason") in ("FailedMount", "FailedAttachVolume"):
            remedy = "a volume cannot be mounted: is its claim, ConfigMap or secret there, and does its server answer?"
            yield _trouble(pod, event["reason"], _line(event.get("message")), remedy)
            return


def _trouble(pod: Mapping[str, Any], reason: str, detail: str, remedy: str) -> PodTrouble:
    return PodTrouble(pod=pod["metadata"]["name"], reason=reason, detail=detail.strip("; "), remedy=remedy)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
