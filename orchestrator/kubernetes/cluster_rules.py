"""Rules of a RayJob's Ray cluster: its head, its worker groups, autoscaling, authentication."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.kubernetes.job_rules import Fault
from orchestrator.kubernetes.resource_names import MAX_LABEL, RESERVED_GROUPS, name_fault
from orchestrator.kubernetes.spot_nodes import SPOT_NODES

_CLUSTER = "spec.rayClusterSpec"
_HEAD = f"{_CLUSTER}.headGroupSpec"
_TOKENS_SINCE = (2, 52, 0)
_COUNTED = ("num-cpus", "num-gpus", "memory", "resources")  # by rayStartParams, or by the group's `resources`


def cluster_faults(job: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with the cluster of a RayJob; nothing of one that was there before."""
    cluster = job.get("spec", {}).get("rayClusterSpec")
    if not cluster:
        return
    head = cluster.get("headGroupSpec", {})
    yield from _head_faults(head)
    yield from _group_faults(_HEAD, head)
    groups = cluster.get("workerGroupSpecs", [])
    autoscaled = bool(cluster.get("enableInTreeAutoscaling"))
    if not groups:
        yield Fault(field=f"{_CLUSTER}.workerGroupSpecs", message="no worker group, so no place for any trial")
    yield from _name_faults(groups)
    for index, group in enumerate(groups):
        field = f"{_CLUSTER}.workerGroupSpecs[{index}]"
        yield from _group_faults(field, group)
        yield from _size_faults(field, group, is_autoscaled=autoscaled)
    yield from _autoscaling_faults(cluster, autoscaled)
    yield from _authentication_faults(cluster)
    if "gcsFaultToleranceOptions" in cluster:
        message = "is for Ray Serve alone; a sweep goes on from its folder (backoffLimit)"
        yield Fault(field=f"{_CLUSTER}.gcsFaultToleranceOptions", message=message)


def _head_faults(head: Mapping[str, Any]) -> Iterator[Fault]:
    parameters = head.get("rayStartParams", {})
    if (cpus := parameters.get("num-cpus")) != "0":
        message = f'{cpus!r}, and trials would run beside the driver (write "0")'
        yield Fault(field=f"{_HEAD}.rayStartParams.num-cpus", message=message)
    pod = head.get("template", {}).get("spec", {})
    tolerated = {toleration.get("key") for toleration in pod.get("tolerations", [])}
    for nodes in SPOT_NODES.values():
        if pod.get("nodeSelector", {}).get(nodes.key) == nodes.value or (nodes.tainted and nodes.key in tolerated):
            message = f"places the head on spot nodes ({nodes.key}), and with the head goes the driver (on demand only)"
            yield Fault(field=f"{_HEAD}.template.spec", message=message)


def _group_faults(field: str, group: Mapping[str, Any]) -> Iterator[Fault]:
    parameters = group.get("rayStartParams", {})
    for name, value in parameters.items():
        if not isinstance(value, str):
            yield Fault(field=f"{field}.rayStartParams.{name}", message=f'{value!r} is no text (write "{value}")')
    if group.get("resources") and (both := [name for name in _COUNTED if name in parameters]):
        message = f"stands beside rayStartParams {', '.join(both)}, and KubeRay takes one of both"
        yield Fault(field=f"{field}.resources", message=message)
    if "labels" in parameters:
        yield Fault(field=f"{field}.rayStartParams.labels", message="KubeRay takes them as the group's `labels`")
    for name in ("redis-username", "redis-password"):
        if name in parameters:
            yield Fault(
                field=f"{field}.rayStartParams.{name}", message="is for Ray Serve alone, and no place of secrets"
            )
    if not group.get("template", {}).get("spec", {}).get("containers"):
        yield Fault(field=f"{field}.template.spec.containers", message="no container")


def _name_faults(groups: list[Mapping[str, Any]]) -> Iterator[Fault]:
    counted = Counter(group["groupName"] for group in groups)
    for index, group in enumerate(groups):
        field, name = f"{_CLUSTER}.workerGroupSpecs[{index}].groupName", group["groupName"]
        if fault := name_fault(name, MAX_LABEL):
            yield Fault(field=field, message=fault)
        if name in RESERVED_GROUPS:
            yield Fault(field=field, message=f"'{name}' is the head's own group (call it otherwise)")
        if counted[name] > 1:
            yield Fault(field=field, message=f"'{name}' names {counted[name]} groups")


def _size_faults(field: str, group: Mapping[str, Any], *, is_autoscaled: bool) -> Iterator[Fault]:
    least, most, now = group.get("minReplicas"), group.get("maxReplicas"), group.get("replicas")
    if not is_autoscaled and (least is None or most is None):
        yield Fault(field=field, message="minReplicas and maxReplicas are needed without autoscaling")
        return
    least, most = least or 0, 2**31 - 1 if most is None else most
    if min(least, most) < 0:
        yield Fault(field=field, message=f"minReplicas {least} and maxReplicas {most} are not both 0 or more")
    elif least > most:
        yield Fault(field=field, message=f"minReplicas {least} is more than maxReplicas {most} (`min` and `max`)")
    elif now is not None and not least <= now <= most:
        yield Fault(field=f"{field}.replicas", message=f"{now} is not from minReplicas {least} to maxReplicas {most}")


def _autoscaling_faults(cluster: Mapping[str, Any], autoscaled: bool) -> Iterator[Fault]:
    options = cluster.get("autoscalerOptions", {})
    named = [(_HEAD, cluster.get("headGroupSpec", {}))]
    groups = cluster.get("workerGroupSpecs", [])
    named += [(f"{_CLUSTER}.workerGroupSpecs[{index}]", group) for index, group in enumerate(groups)]
    if not autoscaled:
        if options:
            message = "without enableInTreeAutoscaling nothing reads them"
            yield Fault(field=f"{_CLUSTER}.autoscalerOptions", message=message)
        return
    if (found := options.get("version")) != "v2":
        message = f"{found!r}, and only version v2 knows why a pod does not come (write v2)"
        yield Fault(field=f"{_CLUSTER}.autoscalerOptions.version", message=message)
    if (idle_s := options.get("idleTimeoutSeconds", 0)) < 0:
        yield Fault(field=f"{_CLUSTER}.autoscalerOptions.idleTimeoutSeconds", message=f"{idle_s} is no time")
    for field, group in named:
        policy = group.get("template", {}).get("spec", {}).get("restartPolicy", "Never")
        if policy != "Never":
            message = f"{policy}, and autoscaling v2 needs Never: a pod that ended is replaced by another"
            yield Fault(field=f"{field}.template.spec.restartPolicy", message=message)
        if group.get("suspend"):
            yield Fault(field=f"{field}.suspend", message="a group that is autoscaled cannot be suspended")


def _authentication_faults(cluster: Mapping[str, Any]) -> Iterator[Fault]:
    if cluster.get("authOptions", {}).get("mode") != "token":
        return
    ray = str(cluster.get("rayVersion", ""))
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}", ray) or _parts(ray) < _TOKENS_SINCE:
        message = f"{ray!r}, and authentication by token needs 2.52.0 or newer (or `auth: disabled`)"
        yield Fault(field=f"{_CLUSTER}.rayVersion", message=message)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in [*version.split("."), "0"][:3])
