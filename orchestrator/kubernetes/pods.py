"""The pods of a sweep's Ray cluster: the head's, those of each worker group, and the submitter's.

All run the image as its own user, on a root file system that nothing is written to: what is written goes to volumes
that end with the pod, and to the sweep's storage. Memory requests are the limits, so that a node that runs low ends no
pod that kept to what it asked for.
"""

from collections.abc import Sequence
from typing import Any

from orchestrator.kubernetes.quantities import bytes_quantity
from orchestrator.kubernetes.resource_names import SWEEP_FILE_FOLDER, config_map_name, pod_labels
from orchestrator.kubernetes.settings import Settings
from orchestrator.kubernetes.spot_nodes import SPOT_NODES
from search_spaces.cluster_block import TolerationBlock, WorkerGroupBlock

GPU = "nvidia.com/gpu"
HEAD_CONTAINER, WORKER_CONTAINER, SUBMITTER_CONTAINER = "ray-head", "ray-worker", "ray-job-submitter"
PREFLIGHT_CONTAINER = "preflight"
USER = 1000  # the image's
_SCRATCH = "/scratch"  # caches and the home folder, which end with the pod
_GRACE_S = 120  # from a node's notice to its end: a trial writes a checkpoint after its step
_PREFLIGHT_BYTES = 1 << 30
_SUBMITTER_BYTES = 1 << 30
_KEPT_BY_DISRUPTIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}

Manifest = dict[str, Any]


def head_pod(settings: Settings) -> Manifest:
    """The template of the head's pod: on demand nodes, not to be moved while the sweep runs, with the sweep file."""
    head = settings.cluster.head
    container = {
        **_container(settings, HEAD_CONTAINER, _resources(head.cpus, head.memory)),
        "ports": [
            {"name": "gcs-server", "containerPort": 6379},
            {"name": "dashboard", "containerPort": 8265},
            {"name": "client", "containerPort": 10001},
        ],
    }
    container["volumeMounts"] = [
        *container["volumeMounts"],
        {"name": "sweep-file", "mountPath": SWEEP_FILE_FOLDER, "readOnly": True},
    ]
    file_volume = {"name": "sweep-file", "configMap": {"name": config_map_name(settings.name)}}
    pod = _pod(settings, container, _tolerations(head.tolerations), head.node_selector, disk=None)
    pod["spec"]["volumes"].append(file_volume)
    pod["metadata"]["annotations"] = dict(_KEPT_BY_DISRUPTIONS)
    return pod


def worker_pod(settings: Settings, group: WorkerGroupBlock) -> Manifest:
    """The template of the pods of a worker group."""
    spot = SPOT_NODES[group.spot] if group.spot else None
    tolerations = [
        *_tolerations(group.tolerations),
        *(spot.tolerations if spot else ()),
        *([{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}] if group.gpus else []),
    ]
    selector = {**(spot.node_selector if spot else {}), **group.node_selector}
    container = _container(settings, WORKER_CONTAINER, _resources(group.cpus, group.memory, group.gpus))
    return _pod(settings, container, tolerations, selector, disk=group.disk)


def submitter_pod(settings: Settings) -> Manifest:
    """The template of the pod that hands the entry point to the head and follows its log, beside the head."""
    head, written = settings.cluster.head, ("tmp", "scratch")
    container = _container(settings, SUBMITTER_CONTAINER, _resources(1, _SUBMITTER_BYTES))
    container.pop("envFrom", None)  # it reads and writes nothing of the sweep
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in written]
    pod = _pod(settings, container, _tolerations(head.tolerations), head.node_selector, disk=None)
    del pod["spec"]["initContainers"]
    pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if volume["name"] in written]
    return pod


def container_security() -> Manifest:
    """Rights of a container: none."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def _pod(
    settings: Settings,
    container: Manifest,
    tolerations: Sequence[Manifest],
    node_selector: dict[str, str],
    *,
    disk: int | None,
) -> Manifest:
    cluster = settings.cluster
    spec: Manifest = {
        "serviceAccountName": cluster.service_account,
        # Ray's autoscaler, which is in the head's pod, is all that speaks with Kubernetes.
        "automountServiceAccountToken": container["name"] == HEAD_CONTAINER and cluster.autoscaling is not None,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "fsGroup": USER,
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_preflight(settings)],
        "containers": [container],
        "volumes": _volumes(settings, disk),
    }
    if cluster.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in cluster.image_pull_secrets]
    if cluster.priority_class:
        spec["priorityClassName"] = cluster.priority_class
    if node_selector:
        spec["nodeSelector"] = dict(sorted(node_selector.items()))
    if tolerations:
        spec["tolerations"] = list(tolerations)
    return {"metadata": {"labels": pod_labels(settings.name, settings.sweep.name)}, "spec": spec}


def _preflight(settings: Settings) -> Manifest:
    """What looks before Ray starts in a pod, with its image, environment and volumes, and keeps it from starting.

    In every pod, and not in a job of its own: so it is seen from every worker group, also on nodes that come later,
    and no GPU node is started only to look. Kubernetes shows what it says as the pod's state.
    """
    storage, image = settings.storage, settings.image
    command = ["densesweep", "k8s", "preflight", "--storage", storage, "--expect", str(image)]
    return {
        **_container(settings, PREFLIGHT_CONTAINER, _resources(1, _PREFLIGHT_BYTES)),
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _container(settings: Settings, name: str, resources: Manifest) -> Manifest:
    cluster = settings.cluster
    container: Manifest = {
        "name": name,
        "image": cluster.image,
        "imagePullPolicy": cluster.image_pull_policy,
        "env": [{"name": key, "value": value} for key, value in sorted(_environment(settings).items())],
        "resources": resources,
        "securityContext": container_security(),
        "volumeMounts": _mounts(settings),
    }
    if cluster.secrets:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in cluster.secrets]
    return container


def _environment(settings: Settings) -> dict[str, str]:
    storage = settings.cluster.storage
    ours = {
        "DENSESWEEP_CACHE": f"{_SCRATCH}/densesweep",
        "HF_HOME": f"{_SCRATCH}/huggingface",
        "HOME": _SCRATCH,
        "RAY_AUTH_MODE": settings.cluster.auth,  # said, since Ray's own default depends on files that it finds
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": "/tmp",
    }
    if storage.endpoint:
        ours["AWS_ENDPOINT_URL"] = storage.endpoint
    if storage.region:
        ours["AWS_REGION"] = ours["AWS_DEFAULT_REGION"] = storage.region
    return ours | settings.cluster.env


def _mounts(settings: Settings) -> list[Manifest]:
    cluster = settings.cluster
    mounts: list[Manifest] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "scratch", "mountPath": _SCRATCH}]
    if cluster.storage.claim:
        mounts.append({"name": "storage", "mountPath": cluster.storage.mount})
    for number, folder in enumerate(cluster.secret_files.values()):
        mounts.append({"name": f"secret-{number}", "mountPath": folder, "readOnly": True})
    return mounts


def _volumes(settings: Settings, disk: int | None) -> list[Manifest]:
    cluster = settings.cluster
    scratch = {"sizeLimit": bytes_quantity(disk)} if disk else {}
    volumes: list[Manifest] = [{"name": "tmp", "emptyDir": {}}, {"name": "scratch", "emptyDir": scratch}]
    if cluster.storage.claim:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": cluster.storage.claim}})
    for number, name in enumerate(cluster.secret_files):
        volumes.append({"name": f"secret-{number}", "secret": {"secretName": name}})
    return volumes


def _resources(cpus: int | None, memory: int | None, gpus: int = 0) -> Manifest:
    assert cpus is not None
    assert memory is not None
    each = {"cpu": str(cpus), "memory": bytes_quantity(memory), **({GPU: str(gpus)} if gpus else {})}
    return {"limits": dict(each), "requests": dict(each)}


def _tolerations(blocks: Sequence[TolerationBlock]) -> list[Manifest]:
    return [block.model_dump(exclude_none=True) for block in blocks]
