"""Rules of the pods of a RayJob: images, memory, secrets, and the storage that every one of them has to see."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from orchestrator.kubernetes.job_rules import Fault
from orchestrator.kubernetes.pods import GPU, HEAD_CONTAINER, SUBMITTER_CONTAINER, WORKER_CONTAINER
from orchestrator.kubernetes.quantities import bytes_quantity, number_of
from results.store import local_folder
from search_spaces.cluster_block import is_secret

LEAST_HEAD_BYTES = 4 << 30
_CLUSTER = "spec.rayClusterSpec"
_RAY = (HEAD_CONTAINER, WORKER_CONTAINER, SUBMITTER_CONTAINER)
_SHARED_VOLUMES = ("persistentVolumeClaim", "nfs", "csi")


def pod_faults(job: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with the pods that a RayJob leads to."""
    spec, images = job.get("spec", {}), set()
    for field, pod in _pods(spec):
        containers = pod.get("containers", [])
        yield from _first_faults(f"{field}.containers", containers)
        kinds = (("containers", containers), ("initContainers", pod.get("initContainers", [])))
        for kind, index, container in ((kind, i, c) for kind, found in kinds for i, c in enumerate(found)):
            yield from _container_faults(f"{field}.{kind}[{index}]", container)
        images |= {container.get("image") for container in containers[:1]}
    yield from _head_memory_faults(spec)
    if len(images) > 1:
        named = ", ".join(sorted(str(image) for image in images))
        message = f"head, workers and submitter have different images, and so maybe other versions of Ray: {named}"
        yield Fault(field=_CLUSTER, message=message)
    yield from _authentication_faults(spec)
    yield from _storage_faults(spec)


def _pods(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every pod with its field; that of the submitter last."""
    yield from _cluster_pods(spec)
    if submitter := spec.get("submitterPodTemplate"):
        yield "spec.submitterPodTemplate.spec", submitter.get("spec", {})


def _cluster_pods(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    cluster = spec.get("rayClusterSpec") or {}
    named = [("headGroupSpec", cluster.get("headGroupSpec", {}))] if cluster else []
    named += [(f"workerGroupSpecs[{index}]", group) for index, group in enumerate(cluster.get("workerGroupSpecs", []))]
    for name, group in named:
        yield f"{_CLUSTER}.{name}.template.spec", group.get("template", {}).get("spec", {})


def _first_faults(field: str, containers: list[Mapping[str, Any]]) -> Iterator[Fault]:
    names = [container.get("name") for container in containers]
    if names and names[0] not in _RAY:
        message = f"'{names[0]}' is first, and KubeRay starts Ray in the first one ({', '.join(_RAY)})"
        yield Fault(field=field, message=message)


def _container_faults(field: str, container: Mapping[str, Any]) -> Iterator[Fault]:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    if "@sha256:" not in image and tag in ("", "latest"):
        message = f"'{image}' says not which version it is (write a tag other than latest, or a digest)"
        yield Fault(field=f"{field}.image", message=message)
    limits, requests = (container.get("resources", {}).get(kind, {}) for kind in ("limits", "requests"))
    if "memory" not in limits or limits.get("memory") != requests.get("memory"):
        found = f"requests {requests.get('memory', 'none')} and limits {limits.get('memory', 'none')}"
        message = f"{found} of memory: they have to be equal, or a full node ends pods that kept to their request"
        yield Fault(field=f"{field}.resources", message=message)
    gpus = number_of(limits.get(GPU, 0))
    if gpus is None or gpus != int(gpus) or requests.get(GPU, limits.get(GPU)) != limits.get(GPU):
        message = (
            f"{limits.get(GPU)} GPUs: a pod has whole ones, as many requested as limited (trials share one by 1/k)"
        )
        yield Fault(field=f"{field}.resources", message=message)
    mounted = Counter(mount["mountPath"] for mount in container.get("volumeMounts", []))
    for folder, number in mounted.items():
        if number > 1:
            message = f"{number} volumes are mounted at {folder} (`storage.mount` and `secret_files` need their own)"
            yield Fault(field=f"{field}.volumeMounts", message=message)
    for variable in container.get("env", []):
        if "value" in variable and is_secret(variable["name"]):
            message = f"{variable['name']} holds a secret in the open (name a Secret of the cluster in `secrets`)"
            yield Fault(field=f"{field}.env", message=message)
        if variable["name"] in ("RAY_REDIS_ADDRESS", "RAY_enable_autoscaler_v2"):
            message = f"{variable['name']} goes against what KubeRay sets itself (leave it away)"
            yield Fault(field=f"{field}.env", message=message)


def _head_memory_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for field, pod in list(_cluster_pods(spec))[:1]:
        for container in pod.get("containers", [])[:1]:
            memory = number_of(container.get("resources", {}).get("limits", {}).get("memory", 0))
            if memory is None or memory < LEAST_HEAD_BYTES:
                found = container.get("resources", {}).get("limits", {}).get("memory", "none")
                message = f"{found} of memory, and a head with a driver needs {bytes_quantity(LEAST_HEAD_BYTES)}"
                yield Fault(field=f"{field}.containers[0].resources", message=message)


def _authentication_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Pods that would go by what they find, or by another mode than the cluster's."""
    mode = (spec.get("rayClusterSpec") or {}).get("authOptions", {}).get("mode", "disabled")
    for field, pod in _pods(spec):
        for container in pod.get("containers", [])[:1]:
            found = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
            if (said := found.get("RAY_AUTH_MODE")) != mode:
                message = f"RAY_AUTH_MODE is {said!r}, and the cluster's authentication '{mode}' (say it in every pod)"
                yield Fault(field=f"{field}.containers[0].env", message=message)


def _storage_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Pods that do not see the sweep folder, or that nothing looks from whether they do."""
    storage = _storage_of(spec.get("entrypoint", ""))
    if storage is None:
        message = "names no --storage, and the sweep folder would be the head's own, which ends with it"
        yield Fault(field="spec.entrypoint", message=message)
        return
    for field, pod in _cluster_pods(spec):
        if (folder := local_folder(storage)) is not None and not _is_mounted(str(folder), pod):
            message = f"mounts no shared volume at {storage}, where the sweep folder lies (`storage.claim`)"
            yield Fault(field=f"{field}.volumes", message=message)
        looked = [container.get("command", []) for container in pod.get("initContainers", [])]
        if not any("preflight" in command and storage in command for command in looked):
            message = (
                f"nothing looks before Ray starts whether {storage} is reached from there (`densesweep k8s preflight`)"
            )
            yield Fault(field=f"{field}.initContainers", message=message)


def _storage_of(entry_point: str) -> str | None:
    try:
        arguments = shlex.split(entry_point)
    except ValueError:
        return None
    given = [value for option, value in pairwise(arguments) if option == "--storage"]
    return given[-1] if given else None


def _is_mounted(folder: str, pod: Mapping[str, Any]) -> bool:
    shared = {volume["name"] for volume in pod.get("volumes", []) if any(kind in volume for kind in _SHARED_VOLUMES)}
    mounts = [mount for container in pod.get("containers", [])[:1] for mount in container.get("volumeMounts", [])]
    return any(
        mount["name"] in shared and not mount.get("readOnly") and f"{folder}/".startswith(f"{mount['mountPath']}/")
        for mount in mounts
    )
