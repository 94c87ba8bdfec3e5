"""The RayJob of a sweep: the cluster that it runs on, the command that runs it, and what becomes of both after it."""

import re

from orchestrator.driver_command import driver_command
from orchestrator.kubernetes.pods import Manifest, submitter_pod
from orchestrator.kubernetes.ray_cluster import ray_cluster_spec, worker_node
from orchestrator.kubernetes.resource_names import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    STORAGE_ANNOTATION,
    SWEEP_FILE_FOLDER,
    SWEEP_FILE_KEY,
    VERSIONS_ANNOTATION,
    labels,
)
from orchestrator.kubernetes.settings import Settings
from orchestrator.requests import groups_at_once, request_of
from search_spaces.cluster_block import DeletionBlock

DEFAULT_TTL_S = 3600
PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")  # what every shell takes as it stands
_CONDITIONS = {
    "succeeded": {"jobStatus": "SUCCEEDED"},
    "failed": {"jobStatus": "FAILED"},
    "deployment_failed": {"jobDeploymentStatus": "Failed"},
}
_POLICIES = {"workers": "DeleteWorkers", "cluster": "DeleteCluster", "self": "DeleteSelf", "none": "DeleteNone"}
_SUBMITTER_TRIES = 2


def ray_job(settings: Settings) -> Manifest:
    """The RayJob. Its tries go on with the same sweep folder, so that a lost head costs what ran since."""
    cluster = settings.cluster
    spec: Manifest = {
        "entrypoint": " ".join(entry_point(settings)),
        "submissionMode": cluster.submission,
        "backoffLimit": cluster.backoff_limit,
        **_end(settings),
    }
    if cluster.queue:
        spec["suspend"] = True  # until Kueue admits it
    if cluster.deadline_s:
        spec["activeDeadlineSeconds"] = cluster.deadline_s
    if cluster.start_deadline_s:
        spec["preRunningDeadlineSeconds"] = cluster.start_deadline_s
    spec["rayClusterSpec"] = ray_cluster_spec(settings)
    if cluster.submission == "K8sJobMode":
        spec["submitterConfig"] = {"backoffLimit": _SUBMITTER_TRIES}
        spec["submitterPodTemplate"] = submitter_pod(settings)
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": _metadata(settings), "spec": spec}


def entry_point(settings: Settings) -> list[str]:
    """The command that runs the sweep, on the head.

    Each argument is plain (`PLAIN`): on its way to the head it passes one shell or several, by KubeRay's and Ray's
    versions, which agree on nothing that is to be quoted.
    """
    assert settings.storage is not None
    options = {
        "--tracking": settings.tracking_uri,
        "--placement-timeout": str(settings.cluster.placement_timeout_s),
        "--groups-at-once": _groups_at_once(settings),
    }
    return driver_command(f"{SWEEP_FILE_FOLDER}/{SWEEP_FILE_KEY}", settings.storage, options)


def _groups_at_once(settings: Settings) -> str | None:
    """How many trials on several devices fit once all pods are there; None where they are from the beginning.

    An autoscaler starts pods for what waits for them, and the driver, which begins with those of `min`, has no more
    trials wait than fit.
    """
    cluster, resources = settings.cluster, settings.sweep.resources
    if cluster.autoscaling is None or resources.devices == 1:
        return None
    sized = [group for group in cluster.workers.values() if group.cpus and group.memory]  # others are refused
    nodes = [node for group in sized for node in [worker_node(group)] * group.max]
    request = request_of(resources)
    return str(groups_at_once(nodes, request, num_processes=resources.devices, at_once=resources.at_once))


def _metadata(settings: Settings) -> Manifest:
    cluster = settings.cluster
    queue = {QUEUE_LABEL: cluster.queue} if cluster.queue else {}
    priority = {PRIORITY_LABEL: cluster.queue_priority} if cluster.queue_priority else {}
    return {
        "name": settings.name,
        "namespace": cluster.namespace,
        "labels": {**labels(settings.name, settings.sweep.name), **queue, **priority},
        "annotations": {STORAGE_ANNOTATION: settings.storage, VERSIONS_ANNOTATION: str(settings.image)},
    }


def _end(settings: Settings) -> Manifest:
    """What becomes of the cluster when the sweep has ended: KubeRay takes either a time for all of it, or rules."""
    cluster = settings.cluster
    if cluster.deletion:
        ttl = {} if cluster.ttl_s is None else {"ttlSecondsAfterFinished": cluster.ttl_s}
        return {
            "shutdownAfterJobFinishes": False,
            **ttl,
            "deletionStrategy": {"deletionRules": _rules(cluster.deletion)},
        }
    ttl_s = DEFAULT_TTL_S if cluster.ttl_s is None else cluster.ttl_s
    return {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": ttl_s}


def _rules(blocks: tuple[DeletionBlock, ...]) -> list[Manifest]:
    return [
        {"policy": _POLICIES[block.delete], "condition": {**_CONDITIONS[block.when], "ttlSeconds": block.after_s}}
        for block in blocks
    ]
