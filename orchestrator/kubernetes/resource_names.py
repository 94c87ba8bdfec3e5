"""What the objects of one sweep are called in a cluster, and how long a name KubeRay takes."""

import re

MAX_RAY_CLUSTER_NAME = 53  # KubeRay appends "-serve-svc", and a service has 63 characters
MAX_RAY_JOB_NAME = MAX_RAY_CLUSTER_NAME - 6  # KubeRay appends '-' and five characters for each try's cluster
MAX_LABEL = 63
RESERVED_GROUPS = ("head", "head-group", "headgroup")  # the head's own, for Kueue and for Ray's autoscaler

SWEEP_LABEL = "densesweep/sweep"  # the sweep's name
STORAGE_ANNOTATION = "densesweep/storage"  # the sweep folder
VERSIONS_ANNOTATION = "densesweep/versions"  # what the image has to hold
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
SWEEP_FILE_KEY = "sweep.yaml"
SWEEP_FILE_FOLDER = "/etc/densesweep"

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def job_name(sweep_name: str) -> str:
    """The name that a sweep's RayJob has if none is given: the sweep's, with '-' for '_'."""
    return sweep_name.replace("_", "-")


def config_map_name(name: str) -> str:
    """The ConfigMap with the sweep file."""
    return f"{name}-sweep"


def name_fault(name: str, longest: int) -> str | None:
    """Why this cannot be the name of an object that has so many characters at most; None where it can."""
    if len(name) > longest:
        return f"'{name}' has {len(name)} characters, and KubeRay takes {longest}"
    if not _DNS_1035.fullmatch(name):
        return f"'{name}' is not a name (lower-case letters, digits and '-', a letter first and no '-' at the end)"
    return None


def labels(name: str, sweep_name: str) -> dict[str, str]:
    """What every object of one sweep is found by."""
    return {**pod_labels(name, sweep_name), "app.kubernetes.io/name": "densesweep"}


def pod_labels(name: str, sweep_name: str) -> dict[str, str]:
    """What every pod of one sweep is found by. `app.kubernetes.io/name` is KubeRay's, whose service selects by it."""
    return {
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": "densesweep",
        SWEEP_LABEL: sweep_name[:MAX_LABEL].rstrip("-_"),  # as a label can have it
    }
