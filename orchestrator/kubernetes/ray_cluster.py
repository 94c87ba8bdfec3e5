"""The Ray cluster of a sweep: a head that runs the driver and no trials, and worker groups that run these."""

import json

from orchestrator.kubernetes.pods import Manifest, container_security, head_pod, worker_pod
from orchestrator.kubernetes.settings import Settings
from orchestrator.requests import Node
from search_spaces.cluster_block import WorkerGroupBlock

OBJECT_STORE_BYTES = 256 << 20  # trials exchange ids and numbers, no arrays
RAY_OWN_BYTES = 1 << 30  # of a worker's memory: its object store and Ray's own processes
_AUTOSCALER = {"cpu": "500m", "memory": "1Gi"}


def ray_cluster_spec(settings: Settings) -> Manifest:
    """The `rayClusterSpec` of the sweep's RayJob."""
    cluster = settings.cluster
    spec: Manifest = {"rayVersion": settings.image.ray}
    if cluster.auth == "token":
        secret = {"secretName": cluster.auth_secret} if cluster.auth_secret else {}
        spec["authOptions"] = {"mode": "token", **secret}
    if cluster.autoscaling:
        spec |= {"enableInTreeAutoscaling": True, "autoscalerOptions": _autoscaler(settings)}
    spec["headGroupSpec"] = {
        "rayStartParams": {
            "dashboard-host": "0.0.0.0",
            "num-cpus": "0",  # so that no trial is placed beside the driver
            "object-store-memory": str(OBJECT_STORE_BYTES),
        },
        "template": head_pod(settings),
    }
    spec["workerGroupSpecs"] = [_worker_group(settings, name, group) for name, group in cluster.workers.items()]
    return spec


def worker_node(group: WorkerGroupBlock) -> Node:
    """What one pod of the group has to give, by the names of Ray's resources."""
    assert group.cpus is not None
    assert group.memory is not None
    kind = {f"accelerator_type:{group.accelerator_type}": 1} if group.accelerator_type and group.gpus else {}
    return {"CPU": group.cpus, "GPU": group.gpus, "memory": max(0, group.memory - RAY_OWN_BYTES), **kind}


def _worker_group(settings: Settings, name: str, group: WorkerGroupBlock) -> Manifest:
    least = group.min if settings.cluster.autoscaling else group.max
    return {
        "groupName": name,
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": group.max,
        "rayStartParams": _start_parameters(group),
        "template": worker_pod(settings, group),
    }


def _start_parameters(group: WorkerGroupBlock) -> dict[str, str]:
    """As `ray start` takes them. All are said, so that what trials are placed by is what was checked before."""
    node = worker_node(group)
    kinds = {name: number for name, number in node.items() if name not in ("CPU", "GPU", "memory")}
    parameters = {
        "memory": str(int(node["memory"])),
        "num-cpus": str(group.cpus),
        "num-gpus": str(group.gpus),
        "object-store-memory": str(OBJECT_STORE_BYTES),
    }
    # Ray finds the kind by itself once a node is there; its autoscaler has to know it before. KubeRay puts parameters
    # into a shell's command line as they are, hence JSON of JSON: "{\"accelerator_type:A100\": 1}".
    return parameters | ({"resources": json.dumps(json.dumps(kinds))} if kinds else {})


def _autoscaler(settings: Settings) -> Manifest:
    autoscaling = settings.cluster.autoscaling
    assert autoscaling is not None
    return {
        "version": "v2",
        "idleTimeoutSeconds": autoscaling.idle_s,
        "upscalingMode": autoscaling.upscaling,
        "imagePullPolicy": settings.cluster.image_pull_policy,
        "resources": {"limits": dict(_AUTOSCALER), "requests": dict(_AUTOSCALER)},
        "securityContext": container_security(),
    }
