"""Rules of a RayJob itself: its name, its modes, its tries, its queue, its end, its entry point."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from orchestrator.kubernetes.ray_job import PLAIN
from orchestrator.kubernetes.resource_names import MAX_RAY_JOB_NAME, QUEUE_LABEL, name_fault
from search_spaces.problems import unknown_name

MAX_QUEUED_GROUPS = 7  # Kueue admits eight sets of pods, and the head is one
_MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
_SELECTOR_KEY = "ray.io/cluster"
_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")  # what is deleted later takes the former with it


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong at a field of an object."""

    field: str
    message: str


def job_faults(job: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with a RayJob, but for its cluster and pods."""
    spec = job.get("spec", {})
    if fault := name_fault(job["metadata"]["name"], MAX_RAY_JOB_NAME):
        yield Fault(field="metadata.name", message=f"{fault}; name the RayJob by --name")
    yield from _cluster_choice_faults(spec)
    yield from _mode_faults(spec)
    yield from _end_faults(spec)
    yield from _time_faults(spec)
    yield from _queue_faults(job)
    yield from _entry_point_faults(spec.get("entrypoint", ""))


def _cluster_choice_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    selector = spec.get("clusterSelector")
    if bool(selector) == bool(spec.get("rayClusterSpec")):
        which = "both are there" if selector else "neither is there"
        yield Fault(field="spec", message=f"exactly one of rayClusterSpec and clusterSelector is needed, {which}")
    if selector and not selector.get(_SELECTOR_KEY):
        yield Fault(field="spec.clusterSelector", message=f"names no cluster (its key is {_SELECTOR_KEY})")
    if selector and spec.get("suspend"):
        yield Fault(field="spec.suspend", message="a RayJob on a cluster that was there before cannot be suspended")
    if selector and spec.get("backoffLimit", 0) > 0:
        message = (
            f"{spec['backoffLimit']}, and a cluster that was there before is not made anew: backoffLimit is 0 there"
        )
        yield Fault(field="spec.backoffLimit", message=message)


def _mode_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    mode = spec.get("submissionMode", "K8sJobMode")
    if mode not in _MODES:
        yield Fault(field="spec.submissionMode", message=unknown_name("mode", mode, _MODES))
    if mode == "InteractiveMode" and spec.get("backoffLimit", 0) > 0:
        message = f"InteractiveMode takes no backoffLimit, which is {spec['backoffLimit']}"
        yield Fault(field="spec.submissionMode", message=message)
    if mode != "SidecarMode":
        return
    for name in ("submitterPodTemplate", "submitterConfig"):
        if name in spec:
            yield Fault(field=f"spec.{name}", message="SidecarMode takes none: it submits from the head's pod")
    if spec.get("clusterSelector"):
        yield Fault(field="spec.submissionMode", message="SidecarMode takes no clusterSelector")
    head = (spec.get("rayClusterSpec") or {}).get("headGroupSpec", {}).get("template", {}).get("spec", {})
    if (policy := head.get("restartPolicy", "Never")) != "Never":
        field = "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"
        yield Fault(field=field, message=f"{policy}, and SidecarMode needs Never")


def _end_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    shutdown, ttl_s = spec.get("shutdownAfterJobFinishes", False), spec.get("ttlSecondsAfterFinished", 0)
    strategy = spec.get("deletionStrategy") or {}
    rules = strategy.get("deletionRules", [])
    if ttl_s < 0:
        yield Fault(field="spec.ttlSecondsAfterFinished", message=f"{ttl_s} is no time")
    if ttl_s > 0 and not shutdown:
        why = (
            "deletion rules have times of their own" if rules else "without shutdownAfterJobFinishes it deletes nothing"
        )
        message = f"{ttl_s}, but {why} (leave `ttl_s` or `deletion` away)"
        yield Fault(field="spec.ttlSecondsAfterFinished", message=message)
    if spec.get("suspend") and not shutdown:
        message = "suspending ends the cluster, so shutdownAfterJobFinishes has to be true (leave `deletion` away)"
        yield Fault(field="spec.suspend", message=message)
    if rules and shutdown:
        message = "deletion rules and shutdownAfterJobFinishes exclude each other"
        yield Fault(field="spec.deletionStrategy.deletionRules", message=message)
    autoscaled = bool((spec.get("rayClusterSpec") or {}).get("enableInTreeAutoscaling"))
    yield from _rule_faults(rules, is_autoscaled=autoscaled, is_selected=bool(spec.get("clusterSelector")))
    yield from _kept_faults(spec, rules)


def _rule_faults(rules: list[Mapping[str, Any]], *, is_autoscaled: bool, is_selected: bool) -> Iterator[Fault]:
    times: dict[str, dict[str, int]] = {}
    for index, rule in enumerate(rules):
        field, policy = f"spec.deletionStrategy.deletionRules[{index}]", rule["policy"]
        condition = rule["condition"]
        state = str(condition.get("jobStatus") or condition.get("jobDeploymentStatus"))
        if policy == "DeleteWorkers" and is_autoscaled:
            message = "DeleteWorkers excludes autoscaling, which would start them again (delete the cluster)"
            yield Fault(field=field, message=message)
        if policy in ("DeleteWorkers", "DeleteCluster") and is_selected:
            yield Fault(field=field, message=f"{policy} would delete a cluster that was there before the RayJob")
        if policy in times.setdefault(state, {}):
            yield Fault(field=field, message=f"{policy} stands twice for {state}")
        times[state][policy] = condition.get("ttlSeconds", 0)
    for state, found in times.items():
        after = [(found[policy], policy) for policy in _ORDER if policy in found]
        for (earlier, first), (later, then) in pairwise(after):
            if earlier > later:
                message = f"{then} after {later} s for {state} would come before {first} after {earlier} s"
                yield Fault(field="spec.deletionStrategy.deletionRules", message=message)


def _kept_faults(spec: Mapping[str, Any], rules: list[Mapping[str, Any]]) -> Iterator[Fault]:
    """States in which the cluster of the RayJob stays, and its nodes with it."""
    if spec.get("shutdownAfterJobFinishes") or not spec.get("rayClusterSpec"):
        return
    ended = {rule["condition"].get("jobStatus") for rule in rules if rule["policy"] in ("DeleteCluster", "DeleteSelf")}
    if left := [state for state in ("SUCCEEDED", "FAILED") if state not in ended]:
        message = (
            f"nothing deletes the cluster of a RayJob that has {' or '.join(left)}, which would hold its nodes "
            "(set shutdownAfterJobFinishes, or a rule that deletes cluster or self)"
        )
        yield Fault(field="spec.shutdownAfterJobFinishes", message=message)


def _time_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if (seconds := spec.get(name, 1)) <= 0:
            yield Fault(field=f"spec.{name}", message=f"{seconds} is no deadline (at least 1 s)")
    if (tries := spec.get("backoffLimit", 0)) < 1 and spec.get("rayClusterSpec"):
        message = f"{tries}, and a lost head would end the sweep (at least 1: the next try goes on from its folder)"
        yield Fault(field="spec.backoffLimit", message=message)
    if text := spec.get("runtimeEnvYAML"):
        try:
            is_mapping = isinstance(yaml.safe_load(text), dict)
        except yaml.YAMLError:
            is_mapping = False
        if not is_mapping:
            yield Fault(field="spec.runtimeEnvYAML", message="is no YAML mapping")


def _queue_faults(job: Mapping[str, Any]) -> Iterator[Fault]:
    queue, spec = job["metadata"].get("labels", {}).get(QUEUE_LABEL), job.get("spec", {})
    if not queue:
        return
    cluster = spec.get("rayClusterSpec") or {}
    if not spec.get("suspend"):
        yield Fault(field="spec.suspend", message=f"has to be true, or it would not wait for queue '{queue}'")
    if not spec.get("shutdownAfterJobFinishes"):
        message = f"has to be true, or it would keep its share of queue '{queue}' for good (leave `deletion` away)"
        yield Fault(field="spec.shutdownAfterJobFinishes", message=message)
    if cluster.get("enableInTreeAutoscaling"):
        message = f"queue '{queue}' admits a cluster at its whole size (leave `autoscaling` away, or the queue)"
        yield Fault(field="spec.rayClusterSpec.enableInTreeAutoscaling", message=message)
    if (number := len(cluster.get("workerGroupSpecs", []))) > MAX_QUEUED_GROUPS:
        message = f"{number} groups, and Kueue admits {MAX_QUEUED_GROUPS} beside the head"
        yield Fault(field="spec.rayClusterSpec.workerGroupSpecs", message=message)


def _entry_point_faults(entry_point: str) -> Iterator[Fault]:
    try:
        arguments = shlex.split(entry_point)
    except ValueError as error:
        yield Fault(field="spec.entrypoint", message=f"{entry_point!r} is no command line ({error})")
        return
    if not arguments:
        yield Fault(field="spec.entrypoint", message="is empty")
    elif " ".join(arguments) != entry_point or not all(PLAIN.fullmatch(argument) for argument in arguments):
        odd = next((a for a in entry_point.split(" ") if not PLAIN.fullmatch(a)), entry_point)
        message = (
            f"{odd!r} would be read by the shells that it passes on its way to the head (arguments are letters, digits "
            "and _ @ % + = : , . / - alone)"
        )
        yield Fault(field="spec.entrypoint", message=message)
