"""RayJobs that are right but for one thing, each with who refuses it: the schema, a CEL rule, or KubeRay's controller.

The first set is told by schema alone, and a real API server of any version has to agree; the others accept what the
schema accepts, and are refused by what no old API server knows.
"""

import copy
import re
from dataclasses import dataclass, field
from typing import Any

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A manifest by what is changed of a right one: fields by path, such as 'spec.volumes[0].name'; _ABSENT removes.

    `refused`: whether the set's judge refuses it. `message`: a part of what is said.
    """

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    refused: bool
    message: str = ""

    def manifest(self, right):
        """The changed copy of a right RayJob."""
        made = copy.deepcopy(right)
        made["metadata"]["name"] = self.name
        for path, value in self.changes.items():
            _set(made, path, value)
        return made


def _set(manifest, path, value):
    *parents, last = [int(part) if part.isdigit() else part for part in _parts(path)]
    node = manifest
    for part in parents:
        if isinstance(node, dict) and part not in node:
            node[part] = {}
        node = node[part]
    if value is _ABSENT:
        del node[last]
    elif isinstance(node, list) and last == len(node):
        node.append(copy.deepcopy(value))
    else:
        node[last] = copy.deepcopy(value)


def _parts(path):
    """'a.b[0]' as a, b, 0; a part in braces is one whatever it holds: 'labels.{a.b/c}'."""
    return [plain or braced for plain, braced in re.findall(r"([^.\[\]{}]+)|\{([^}]*)\}", path)]


CLUSTER = "spec.rayClusterSpec"
HEAD = f"{CLUSTER}.headGroupSpec"
HEAD_POD = f"{HEAD}.template.spec"
GROUP = f"{CLUSTER}.workerGroupSpecs[0]"
POD = f"{GROUP}.template.spec"
RULES = "spec.deletionStrategy.deletionRules"
WORKERS_GONE = {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 0}}
CLUSTER_GONE = {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 60}}
CLUSTER_GONE_TOO = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}}


def _yes(name, changes=None):
    return Labelled(name=name, changes=changes or {}, refused=False)


def _no(name, changes, message=""):
    return Labelled(name=name, changes=changes, refused=True, message=message)


# What the schema says, told by tier 1 and by a real API server alike.
SCHEMA = (
    _yes("as-rendered"),
    _yes("unknown-field-is-dropped", {"spec.notAField": 1}),
    _yes("null-with-a-default", {"spec.backoffLimit": None}),
    _yes("null-without-one", {"spec.activeDeadlineSeconds": None}),
    _yes("min-replicas-by-default", {f"{GROUP}.minReplicas": _ABSENT}),
    _yes("max-replicas-by-default", {f"{GROUP}.maxReplicas": _ABSENT}),
    _yes("no-worker-groups", {f"{CLUSTER}.workerGroupSpecs": []}),
    _yes("no-cluster-at-all", {CLUSTER: _ABSENT}),
    _yes("cpu-as-a-number", {f"{POD}.containers[0].resources.limits.cpu": 4}),
    _yes("cpu-in-thousandths", {f"{POD}.containers[0].resources.limits.cpu": "3500m"}),
    _yes("memory-with-exponent", {f"{POD}.containers[0].resources.limits.memory": "16e9"}),
    _yes("empty-toleration", {f"{POD}.tolerations": [{}]}),
    _yes("mode-of-no-one", {"spec.submissionMode": "NoMode"}),
    _yes("deadline-zero", {"spec.activeDeadlineSeconds": 0}),
    _yes("tries-below-zero", {"spec.backoffLimit": -1}),
    _yes("name-of-253", {"metadata.name": "a" * 253}),
    _yes("name-with-dots", {"metadata.name": "a.b.c"}),
    _yes("replicas-crossed", {f"{GROUP}.minReplicas": 5, f"{GROUP}.maxReplicas": 1}),
    _yes(
        "groups-of-one-name",
        {f"{CLUSTER}.workerGroupSpecs[1]": {"groupName": "cpu", "template": {"spec": {"containers": []}}}},
    ),
    _yes("autoscaler-v1", {f"{CLUSTER}.autoscalerOptions": {"version": "v1"}}),
    _yes("rules-of-deletion", {RULES: [CLUSTER_GONE], "spec.shutdownAfterJobFinishes": False}),
    _no("name-in-capitals", {"metadata.name": "Small"}),
    _no("name-of-254", {"metadata.name": "a" * 254}),
    _no("label-with-a-space", {"metadata.labels.team": "dense retrieval"}),
    _no("deadline-as-text", {"spec.activeDeadlineSeconds": "3600"}),
    _no("tries-and-a-half", {"spec.backoffLimit": 1.5}),
    _no("shutdown-as-text", {"spec.shutdownAfterJobFinishes": "true"}),
    _no("entry-point-as-list", {"spec.entrypoint": ["densesweep", "run"]}),
    _no("start-deadline-zero", {"spec.preRunningDeadlineSeconds": 0}),
    _no("no-head", {HEAD: _ABSENT}),
    _no("head-without-template", {f"{HEAD}.template": _ABSENT}),
    _no("start-parameter-as-number", {f"{HEAD}.rayStartParams.{{num-cpus}}": 0}),
    _no("group-without-name", {f"{GROUP}.groupName": _ABSENT}),
    _no("group-without-template", {f"{GROUP}.template": _ABSENT}),
    _no("pod-without-containers", {f"{POD}.containers": _ABSENT}),
    _no("container-without-name", {f"{POD}.containers[0].name": _ABSENT}),
    _no("memory-of-lots", {f"{POD}.containers[0].resources.limits.memory": "lots"}),
    _no("autoscaler-v3", {f"{CLUSTER}.autoscalerOptions": {"version": "v3"}}),
    _no("empty-deletion-rules", {RULES: []}),
    _no("deletion-of-nothing-known", {RULES: [{**CLUSTER_GONE, "policy": "DeleteAll"}]}),
)

# What CEL rules say beside the schema.
CEL = (
    _yes("rules-alone", {RULES: [CLUSTER_GONE]}),
    _yes(
        "legacy-alone",
        {"spec.deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}, "onFailure": {"policy": "DeleteNone"}}},
    ),
    _yes("managed-by-kueue", {"spec.managedBy": "kueue.x-k8s.io/multikueue"}),
    _no("managed-by-nobody", {"spec.managedBy": "me"}, "must be either"),
    _no("cluster-managed-by-nobody", {f"{CLUSTER}.managedBy": "me"}, "must be either"),
    _no(
        "rules-and-legacy",
        {
            "spec.deletionStrategy": {
                "onSuccess": {"policy": "DeleteSelf"},
                "onFailure": {"policy": "DeleteSelf"},
                "deletionRules": [CLUSTER_GONE],
            }
        },
        "cannot be used together",
    ),
    _no("half-of-legacy", {"spec.deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}}}, "requires either BOTH"),
    _no("strategy-of-nothing", {"spec.deletionStrategy": {}}, "requires either BOTH"),
    _no(
        "condition-of-both",
        {RULES: [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}}]},
        "cannot be used together",
    ),
    _no("condition-of-none", {RULES: [{"policy": "DeleteSelf", "condition": {}}]}, "requires either the JobStatus"),
)

# What only KubeRay's controller, Kueue's webhook, or nobody says: our rules.
AUTOSCALED = {
    f"{CLUSTER}.enableInTreeAutoscaling": True,
    f"{CLUSTER}.autoscalerOptions": {"version": "v2"},
}
BY_RULES = {"spec.shutdownAfterJobFinishes": False, "spec.ttlSecondsAfterFinished": 0}
SELECTED = {CLUSTER: _ABSENT, "spec.clusterSelector": {"ray.io/cluster": "there"}, "spec.backoffLimit": 0}
QUEUED = {"metadata.labels.{kueue.x-k8s.io/queue-name}": "sweeps", "spec.suspend": True}
SIDECAR = {"spec.submissionMode": "SidecarMode", "spec.submitterPodTemplate": _ABSENT, "spec.submitterConfig": _ABSENT}


def _group(name):
    return {"groupName": name, "minReplicas": 0, "maxReplicas": 1, "template": {"spec": {"containers": []}}}


CONTROLLER = (
    _yes("as-it-is"),
    _yes("autoscaled", AUTOSCALED),
    _yes("queued", QUEUED),
    _yes("from-a-sidecar", SIDECAR),
    _yes("longest-name", {"metadata.name": "a" * 47}),
    _yes("deleted-by-rules", {**BY_RULES, RULES: [WORKERS_GONE, CLUSTER_GONE, CLUSTER_GONE_TOO]}),
    _no("name-of-48", {"metadata.name": "a" * 48}, "has 48 characters, and KubeRay takes 47"),
    _no("digit-first", {"metadata.name": "1st"}, "'1st' is not a name"),
    _no("dots-in-name", {"metadata.name": "a.b"}, "'a.b' is not a name"),
    _no("unknown-mode", {"spec.submissionMode": "NoMode"}, "'NoMode' is not a mode"),
    _no(
        "ttl-without-shutdown",
        {"spec.shutdownAfterJobFinishes": False},
        "without shutdownAfterJobFinishes it deletes nothing",
    ),
    _no("ttl-below-zero", {"spec.ttlSecondsAfterFinished": -1}, "-1 is no time"),
    _no(
        "ttl-with-rules",
        {"spec.shutdownAfterJobFinishes": False, RULES: [CLUSTER_GONE, CLUSTER_GONE_TOO]},
        "rules have times of their own",
    ),
    _no("kept-for-good", BY_RULES, "nothing deletes the cluster"),
    _no(
        "kept-after-success",
        {**BY_RULES, RULES: [CLUSTER_GONE]},
        "nothing deletes the cluster of a RayJob that has SUCCEEDED",
    ),
    _no("rules-with-shutdown", {"spec.ttlSecondsAfterFinished": 0, RULES: [CLUSTER_GONE]}, "exclude each other"),
    _no(
        "cluster-before-workers",
        {
            **BY_RULES,
            RULES: [
                {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 90}},
                CLUSTER_GONE,
                CLUSTER_GONE_TOO,
            ],
        },
        "DeleteCluster after 60 s for FAILED would come before DeleteWorkers after 90 s",
    ),
    _no(
        "rule-twice",
        {**BY_RULES, RULES: [CLUSTER_GONE, CLUSTER_GONE, CLUSTER_GONE_TOO]},
        "DeleteCluster stands twice for FAILED",
    ),
    _no(
        "workers-of-an-autoscaler",
        {**AUTOSCALED, **BY_RULES, RULES: [WORKERS_GONE, CLUSTER_GONE, CLUSTER_GONE_TOO]},
        "DeleteWorkers excludes autoscaling",
    ),
    _no(
        "suspended-with-rules",
        {**BY_RULES, RULES: [CLUSTER_GONE, CLUSTER_GONE_TOO], "spec.suspend": True},
        "suspending ends the cluster",
    ),
    _no("neither-cluster", {CLUSTER: _ABSENT}, "exactly one of rayClusterSpec and clusterSelector is needed, neither"),
    _no("both-clusters", {"spec.clusterSelector": {"ray.io/cluster": "there"}}, "needed, both are there"),
    _no("selector-of-none", {**SELECTED, "spec.clusterSelector": {"cluster": "there"}}, "names no cluster"),
    _no("selector-suspended", {**SELECTED, "spec.suspend": True}, "cannot be suspended"),
    _no("selector-with-tries", {**SELECTED, "spec.backoffLimit": 2}, "backoffLimit is 0 there"),
    _no("selector-in-sidecar", {**SELECTED, **SIDECAR}, "SidecarMode takes no clusterSelector"),
    _no(
        "selector-deletes",
        {**SELECTED, **BY_RULES, RULES: [CLUSTER_GONE]},
        "would delete a cluster that was there before",
    ),
    _no("interactive-with-tries", {"spec.submissionMode": "InteractiveMode"}, "InteractiveMode takes no backoffLimit"),
    _no(
        "sidecar-with-template",
        {**SIDECAR, "spec.submitterPodTemplate": {"spec": {"containers": []}}},
        "SidecarMode takes none",
    ),
    _no("sidecar-with-config", {**SIDECAR, "spec.submitterConfig": {"backoffLimit": 1}}, "SidecarMode takes none"),
    _no("sidecar-restarted", {**SIDECAR, f"{HEAD_POD}.restartPolicy": "Always"}, "SidecarMode needs Never"),
    _no("no-deadline", {"spec.activeDeadlineSeconds": 0}, "0 is no deadline"),
    _no("no-start-deadline", {"spec.preRunningDeadlineSeconds": -5}, "-5 is no deadline"),
    _no("single-try", {"spec.backoffLimit": 0}, "a lost head would end the sweep"),
    _no("runtime-environment", {"spec.runtimeEnvYAML": "a: [b"}, "is no YAML mapping"),
    _no("queue-not-suspended", {**QUEUED, "spec.suspend": False}, "it would not wait for queue 'sweeps'"),
    _no(
        "queue-with-rules",
        {**QUEUED, **BY_RULES, RULES: [CLUSTER_GONE, CLUSTER_GONE_TOO]},
        "it would keep its share of queue 'sweeps' for good",
    ),
    _no("queue-autoscaled", {**QUEUED, **AUTOSCALED}, "queue 'sweeps' admits a cluster at its whole size"),
    _no(
        "queue-of-eight",
        {**QUEUED, f"{CLUSTER}.workerGroupSpecs": [_group(f"g{i}") for i in range(8)]},
        "8 groups, and Kueue admits 7",
    ),
    _no(
        "two-commands",
        {"spec.entrypoint": "densesweep run f --storage s3://b/p; rm -r x"},
        "'s3://b/p;' would be read by the shells",
    ),
    _no(
        "and-another",
        {"spec.entrypoint": "densesweep run f --storage s3://b/p && true"},
        "'&&' would be read by the shells",
    ),
    _no(
        "backticks", {"spec.entrypoint": "densesweep run `ls` --storage s3://b/p"}, "'`ls`' would be read by the shells"
    ),
    _no("a-variable", {"spec.entrypoint": "densesweep run f --storage $HOME"}, "'$HOME' would be read by the shells"),
    _no("quoted-space", {"spec.entrypoint": "densesweep run 'a b' --storage s3://b/p"}, "would be read by the shells"),
    _no("open-quote", {"spec.entrypoint": "densesweep run 'f"}, "is no command line"),
    _no("empty-command", {"spec.entrypoint": ""}, "is empty"),
    _no("head-counts-cpus", {f"{HEAD}.rayStartParams.{{num-cpus}}": "2"}, "trials would run beside the driver"),
    _no(
        "head-counts-by-itself", {f"{HEAD}.rayStartParams.{{num-cpus}}": _ABSENT}, "trials would run beside the driver"
    ),
    _no(
        "head-on-spot",
        {f"{HEAD_POD}.nodeSelector": {"cloud.google.com/gke-spot": "true"}},
        "places the head on spot nodes",
    ),
    _no(
        "small-head",
        {
            f"{HEAD_POD}.containers[0].resources": {
                kind: {"cpu": "1", "memory": "2Gi"} for kind in ("limits", "requests")
            }
        },
        "2Gi of memory, and a head with a driver needs 4Gi",
    ),
    _no("number-for-text", {f"{GROUP}.rayStartParams.{{num-cpus}}": 4}, '4 is no text (write "4")'),
    _no("counted-twice", {f"{GROUP}.resources": {"CPU": "4"}}, "stands beside rayStartParams num-cpus"),
    _no("labels-as-parameter", {f"{GROUP}.rayStartParams.labels": "a=b"}, "takes them as the group's `labels`"),
    _no("password-as-parameter", {f"{HEAD}.rayStartParams.{{redis-password}}": "x"}, "no place of secrets"),
    _no("group-without-containers", {f"{POD}.containers": []}, "no container"),
    _no("no-groups", {f"{CLUSTER}.workerGroupSpecs": []}, "no place for any trial"),
    _no("group-in-capitals", {f"{GROUP}.groupName": "CPU"}, "'CPU' is not a name"),
    _no("group-of-64", {f"{GROUP}.groupName": "g" * 64}, "has 64 characters, and KubeRay takes 63"),
    _no("group-like-the-head", {f"{GROUP}.groupName": "headgroup"}, "is the head's own group"),
    _no("group-twice", {f"{CLUSTER}.workerGroupSpecs[1]": _group("cpu")}, "'cpu' names 2 groups"),
    _no("min-above-max", {f"{GROUP}.minReplicas": 3}, "minReplicas 3 is more than maxReplicas 2"),
    _no("below-zero", {f"{GROUP}.minReplicas": -1}, "are not both 0 or more"),
    _no("sizes-unsaid", {f"{GROUP}.maxReplicas": _ABSENT}, "are needed without autoscaling"),
    _no("replicas-beyond", {f"{GROUP}.replicas": 9}, "9 is not from minReplicas 2 to maxReplicas 2"),
    _no("autoscaler-unread", {f"{CLUSTER}.autoscalerOptions": {"version": "v2"}}, "nothing reads them"),
    _no("old-autoscaler", {**AUTOSCALED, f"{CLUSTER}.autoscalerOptions": {"version": "v1"}}, "only version v2"),
    _no(
        "idle-below-zero",
        {**AUTOSCALED, f"{CLUSTER}.autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": -1}},
        "-1 is no time",
    ),
    _no("restarted-worker", {**AUTOSCALED, f"{POD}.restartPolicy": "Always"}, "autoscaling v2 needs Never"),
    _no("suspended-group", {**AUTOSCALED, f"{GROUP}.suspend": True}, "cannot be suspended"),
    _no("ray-before-tokens", {f"{CLUSTER}.rayVersion": "2.51.1"}, "'2.51.1', and authentication by token needs 2.52.0"),
    _no("ray-of-no-version", {f"{CLUSTER}.rayVersion": _ABSENT}, "authentication by token needs 2.52.0"),
    _no(
        "mode-unsaid",
        {f"{POD}.containers[0].env": []},
        "RAY_AUTH_MODE is None, and the cluster's authentication 'token'",
    ),
    _no(
        "serve-only", {f"{CLUSTER}.gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}, "is for Ray Serve alone"
    ),
    _no(
        "redis-by-variable",
        {f"{HEAD_POD}.containers[0].env[0]": {"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}},
        "RAY_REDIS_ADDRESS goes against",
    ),
    _no(
        "memory-overcommitted",
        {f"{POD}.containers[0].resources.requests.memory": "8Gi"},
        "requests 8Gi and limits 16Gi of memory",
    ),
    _no(
        "memory-unlimited",
        {f"{POD}.containers[0].resources.limits": {"cpu": "4"}},
        "requests 16Gi and limits none of memory",
    ),
    _no(
        "memory-of-the-preflight", {f"{POD}.initContainers[0].resources": {}}, "requests none and limits none of memory"
    ),
    _no(
        "half-a-gpu",
        {f"{POD}.containers[0].resources.{kind}.{{nvidia.com/gpu}}": "500m" for kind in ("limits", "requests")},
        "500m GPUs: a pod has whole ones",
    ),
    _no("two-images", {f"{POD}.containers[0].image": "registry.example/other:1"}, "have different images"),
    _no(
        "latest-image",
        {f"{POD}.containers[0].image": "registry.example/densesweep:latest"},
        "says not which version it is",
    ),
    _no(
        "untagged-image",
        {f"{HEAD_POD}.containers[0].image": "registry.example:5000/densesweep"},
        "says not which version it is",
    ),
    _no("sidecar-first", {f"{POD}.containers[0].name": "log-shipper"}, "'log-shipper' is first"),
    _no(
        "secret-in-the-open",
        {f"{POD}.containers[0].env[0]": {"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}},
        "AWS_SECRET_ACCESS_KEY holds a secret in the open",
    ),
    _no("no-storage", {"spec.entrypoint": "densesweep run /etc/densesweep/sweep.yaml"}, "names no --storage"),
    _no(
        "storage-of-one-node",
        {"spec.entrypoint": "densesweep run /etc/densesweep/sweep.yaml --storage /mnt/sweeps/small"},
        "mounts no shared volume at /mnt/sweeps/small",
    ),
    _no("no-preflight", {f"{POD}.initContainers": []}, "nothing looks before Ray starts"),
)
