"""What ails a pod, from statuses as real clusters write them."""

import pytest

from orchestrator.kubernetes.pod_troubles import troubles_of


def pod(*, labels=None, requests=None, limits=None, phase="Pending", **status):
    container = {"name": "ray-worker", "resources": {"requests": requests or {}, "limits": limits or {}}}
    metadata = {"name": "w", "labels": labels or {"ray.io/group": "gpu"}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase, **status}}


def container(state, last=None, restarts=0):
    told = {"name": "ray-worker", "image": "r/i:1", "state": state, "restartCount": restarts}
    return [{**told, "lastState": last or {}}]


def unplaced(message, reason="Unschedulable"):
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


SCHEDULER = [
    ("0/4 nodes are available: 4 Insufficient cpu, 2 Insufficient memory.", ["no node has 8 cpu, 32Gi memory free"]),
    ("0/4 nodes are available: 4 node(s) had untolerated taint {nvidia.com/gpu: present}.", ["needs tolerations"]),
    ("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", ["has the labels"]),
    ("pod has unbound immediate PersistentVolumeClaims.", ["volume claim is not bound"]),
    ('persistentvolumeclaim "sweeps" not found', ["volume claim is not bound"]),
    (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {spot: true}.",
        ["no node has 8 cpu free", "needs tolerations"],
    ),
    ("something new", ["kubectl describe pod w"]),
]


@pytest.mark.parametrize(("message", "remedies"), SCHEDULER)
def test_why_a_pod_fits_no_node(message, remedies):
    [trouble] = troubles_of(pod(requests={"cpu": "8", "memory": "32Gi"}, conditions=unplaced(message)))
    assert (trouble.reason, trouble.detail) == ("Unschedulable", message)
    for remedy in remedies:
        assert remedy in trouble.remedy


def test_a_pod_that_its_queue_holds_back_is_not_ill():
    [trouble] = troubles_of(pod(conditions=unplaced("Scheduling is blocked", "SchedulingGated")))
    assert "nothing is wrong" in trouble.remedy


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"])
def test_an_image_that_cannot_be_had_is_named(reason):
    [trouble] = troubles_of(pod(containerStatuses=container({"waiting": {"reason": reason, "message": "x"}})))
    assert trouble.reason == reason
    assert "r/i:1" in trouble.remedy


def test_out_of_memory_names_the_limit_now_and_after_a_restart():
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    [now] = troubles_of(pod(phase="Failed", limits={"memory": "3Gi"}, containerStatuses=container(killed)))
    assert now.reason == "OOMKilled"
    assert "limit of 3Gi" in now.detail
    assert "chunk_size" in now.remedy
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    [again] = troubles_of(pod(limits={"memory": "3Gi"}, containerStatuses=container(waiting, killed, restarts=4)))
    assert again.reason == "OOMKilled"
    assert "4 times" in again.detail


def test_the_head_needs_another_remedy():
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    head = pod(labels={"ray.io/node-type": "head"}, phase="Failed", containerStatuses=container(killed))
    assert "give the head more memory" in troubles_of(head)[0].remedy


@pytest.mark.parametrize(("reason", "word"), [("Evicted", "ran low"), ("NodeShutdown", "spot"), ("Preempted", "spot")])
def test_a_pod_that_was_taken_away_says_that_trials_go_on(reason, word):
    [trouble] = troubles_of(pod(phase="Failed", reason=reason, message="The node was low on memory."))
    assert trouble.reason == reason
    assert word in trouble.remedy
    assert "trials go on" in trouble.remedy


def test_what_a_preflight_says_is_shown():
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "message": "error: pod w: cannot be written to"}}
    init = [{"name": "preflight", "image": "r/i:1", "state": ended, "restartCount": 0}]
    [trouble] = troubles_of(pod(phase="Failed", initContainerStatuses=init))
    assert "cannot be written to" in trouble.detail
    assert "-c preflight" in trouble.remedy


def test_a_volume_that_is_not_mounted_is_known_by_events_alone():
    making = container({"waiting": {"reason": "ContainerCreating"}})
    waits = pod(containerStatuses=making)
    assert troubles_of(waits) == []
    said = [{"reason": "FailedMount", "message": 'configmap "tiny-sweep" not found'}]
    [trouble] = troubles_of(waits, said)
    assert trouble.detail == 'configmap "tiny-sweep" not found'


def test_a_pod_that_works_or_ended_well_has_no_trouble():
    assert troubles_of(pod(phase="Running", containerStatuses=container({"running": {}}))) == []
    done = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
    assert troubles_of(pod(phase="Succeeded", containerStatuses=done)) == []
