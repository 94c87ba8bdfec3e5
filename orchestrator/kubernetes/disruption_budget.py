"""The budget that keeps the head's pod where it is while nodes are drained: with it goes the driver."""

from orchestrator.kubernetes.pods import Manifest
from orchestrator.kubernetes.resource_names import labels, pod_labels
from orchestrator.kubernetes.settings import Settings


def disruption_budget(settings: Settings) -> Manifest:
    """Of the one pod that is the head of this sweep's cluster, at least one is to run."""
    named, pods = labels(settings.name, settings.sweep.name), pod_labels(settings.name, settings.sweep.name)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{settings.name}-head", "namespace": settings.cluster.namespace, "labels": named},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {**pods, "ray.io/node-type": "head"}}},
    }
