"""The ConfigMap with the sweep file, which the head reads."""

from orchestrator.kubernetes.pods import Manifest
from orchestrator.kubernetes.resource_names import SWEEP_FILE_KEY, config_map_name, labels
from orchestrator.kubernetes.settings import Settings

MAX_BYTES = 1 << 20  # of all that a ConfigMap holds


def config_map(settings: Settings) -> Manifest:
    """The sweep file as it is."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(settings.name),
            "namespace": settings.cluster.namespace,
            "labels": labels(settings.name, settings.sweep.name),
        },
        "data": {SWEEP_FILE_KEY: settings.text},
    }
