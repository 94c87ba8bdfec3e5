"""Plays KubeRay's operator, the kubelet and the garbage collector in tests. It is not KubeRay.

It watches RayJobs on a real API server and does for them what KubeRay 1.4 and newer does, as far as a sweep needs it:
the states of a RayJob, its RayCluster and its pods are objects there; head, workers and submitter are real processes of
this machine, started with the rendered `rayStartParams`, environment and entry point. What it leaves out is said in
k8s/README.md. The states and their order are those of KubeRay's `rayjob_controller.go`.
"""

import math
import random
import string
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from played_kubelet import PlayedKubelet, PlayedPod

FINALIZER = "ray.io/rayjob-finalizer"
_EVERY_S = 0.2
_LOOK_EVERY_S = 1.0  # at a job that runs, which has better to do than to answer; KubeRay looks every three seconds
_TRIES = 3
_TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
_RAYJOBS = "/apis/ray.io/v1/namespaces/{}/rayjobs"
_RAYCLUSTERS = "/apis/ray.io/v1/namespaces/{}/rayclusters"
_PODS = "/api/v1/namespaces/{}/pods"

Object = dict[str, Any]


@dataclass(kw_only=True)
class Try:
    """What runs for one try of a RayJob."""

    cluster: str
    job_id: str
    head: PlayedPod
    workers: list[PlayedPod] = field(default_factory=list)
    submitter: PlayedPod | None = None
    num_submissions: int = 0
    looked: float = -math.inf
    cluster_status: Object = field(default_factory=dict)

    @property
    def pods(self) -> list[PlayedPod]:
        return [self.head, *self.workers, *([self.submitter] if self.submitter else [])]


class PlayedOperator:
    """One thread that takes each RayJob of its namespaces from state to state, from `start` to `stop`.

    Attributes:
        is_away: whether it does nothing, as an operator that is down.
    """

    def __init__(self, kubelet: PlayedKubelet, namespaces: list[str]) -> None:
        self._kubelet, self._namespaces = kubelet, namespaces
        self._tries: dict[str, Try] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="played operator", daemon=True)
        self.is_away = False
        self.faults: list[str] = []

    def start(self) -> "PlayedOperator":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        self._kubelet.is_interrupted = True
        self._thread.join()
        self._kubelet.is_interrupted = False
        for attempt in self._tries.values():
            for pod in attempt.pods:
                self._kubelet.end(pod)

    def try_of(self, name: str) -> Try | None:
        """What runs for the RayJob of this name now."""
        return next((t for key, t in list(self._tries.items()) if key.endswith(f"/{name}")), None)

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            if self.is_away:
                continue
            for namespace in self._namespaces:
                try:
                    answer = self._kubelet.request("GET", _RAYJOBS.format(namespace))
                    for rayjob in answer.get("items", []):
                        self._reconcile(namespace, rayjob)
                except Exception as error:
                    self.faults.append(f"{type(error).__name__}: {error}")
                    raise

    def _reconcile(self, namespace: str, rayjob: Object) -> None:
        key = f"{namespace}/{rayjob['metadata']['name']}"
        if "deletionTimestamp" in rayjob["metadata"]:
            self._delete(namespace, key, rayjob)
            return
        status = rayjob.get("status") or {}
        steps: dict[str, Callable[[str, str, Object], None]] = {
            "": self._new,
            "Initializing": self._initialize,
            "Running": self._look,
            "Suspending": self._take_down,
            "Retrying": self._take_down,
            "Suspended": self._wake,
            "Complete": self._shut_down,
            "Failed": self._shut_down,
        }
        steps[status.get("jobDeploymentStatus", "")](namespace, key, rayjob)

    def _new(self, namespace: str, key: str, rayjob: Object) -> None:
        name = rayjob["metadata"]["name"]
        if FINALIZER not in rayjob["metadata"].get("finalizers", []):
            self._merge(namespace, name, {"metadata": {"finalizers": [FINALIZER]}})
        self._set_status(
            namespace,
            name,
            jobId=f"{name}-{_suffix()}",
            rayClusterName=f"{name}-{_suffix()}",
            jobDeploymentStatus="Initializing",
            startTime=_now(),
            endTime=None,
        )

    def _initialize(self, namespace: str, key: str, rayjob: Object) -> None:
        if self._is_suspended(namespace, rayjob) or self._is_late(namespace, rayjob):
            return
        name, status = rayjob["metadata"]["name"], rayjob["status"]
        if key not in self._tries:
            self._tries[key] = self._bring_up(namespace, rayjob)
            if self._tries[key].head.failure or any(worker.failure for worker in self._tries[key].workers):
                return  # pods that do not start: KubeRay waits
        attempt = self._tries[key]
        if attempt.submitter is None and not attempt.head.failure:
            self._set_cluster(namespace, status["rayClusterName"], rayjob, attempt, state="ready")
            self._submit(namespace, rayjob, attempt)
            self._set_status(namespace, name, jobDeploymentStatus="Running", dashboardURL=attempt.head.dashboard)

    def _bring_up(self, namespace: str, rayjob: Object) -> Try:
        """Create the cluster's object, its pods, and the processes in them: the workers one after another."""
        spec, status = rayjob["spec"]["rayClusterSpec"], rayjob["status"]
        cluster = status["rayClusterName"]
        self._kubelet.request(
            "POST",
            _RAYCLUSTERS.format(namespace),
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {
                    "name": cluster,
                    "labels": {"ray.io/originated-from-cr-name": rayjob["metadata"]["name"]},
                    "ownerReferences": [_owner(rayjob)],
                },
                "spec": spec,
            },
        )
        head_spec = spec["headGroupSpec"]
        labels = {"ray.io/cluster": cluster, "ray.io/node-type": "head", "ray.io/group": "headgroup"}

        def start(pod: PlayedPod) -> bool:
            attempt = Try(cluster=cluster, job_id=status["jobId"], head=pod)
            self._set_cluster(namespace, cluster, rayjob, attempt, state=None)
            return self._kubelet.start_head(pod, head_spec["rayStartParams"])

        head = self._started(namespace, f"{cluster}-head", head_spec["template"], labels, start)
        attempt = Try(cluster=cluster, job_id=status["jobId"], head=head)
        if head.failure:
            return attempt
        for group in spec.get("workerGroupSpecs", []):
            for number in range(group["replicas"]):
                labels = {
                    "ray.io/cluster": cluster,
                    "ray.io/node-type": "worker",
                    "ray.io/group": group["groupName"],
                }
                name = f"{cluster}-{group['groupName']}-worker-{number}"

                def start_worker(pod: PlayedPod, group: Object = group) -> bool:
                    return self._kubelet.start_worker(pod, group["rayStartParams"], head)

                attempt.workers.append(self._started(namespace, name, group["template"], labels, start_worker))
        return attempt

    def _started(
        self, namespace: str, name: str, template: Object, labels: dict[str, str], start: Callable[[PlayedPod], bool]
    ) -> PlayedPod:
        """A pod that was started; one whose Ray gave up, as it does on a busy machine, is replaced, as KubeRay does."""
        for number in range(_TRIES):
            pod = self._kubelet.pod(namespace, f"{name}-{number}", template, labels)
            if start(pod) or not pod.has_ended or self._ended.is_set():
                break
            if number < _TRIES - 1:
                self._kubelet.end(pod)
                self._kubelet.request("DELETE", f"{_PODS.format(namespace)}/{pod.name}", {"gracePeriodSeconds": 0})
        return pod

    def _submit(self, namespace: str, rayjob: Object, attempt: Try) -> None:
        """What KubeRay gives the submitter to run, in a shell: twice is not submitted twice."""
        name, address = rayjob["metadata"]["name"], f"http://{attempt.head.dashboard}"
        job, entry = attempt.job_id, self._kubelet.seen_from(attempt.head, rayjob["spec"]["entrypoint"].strip())
        command = (
            f"if ! ray job status --address {address} {job} >/dev/null 2>&1 ; "
            f"then ray job submit --address {address} --no-wait --submission-id {job} -- {entry} ; "
            f"fi ; ray job logs --address {address} --follow {job}"
        )
        template = rayjob["spec"]["submitterPodTemplate"]
        labels = {"job-name": name, "ray.io/originated-from-cr-name": name}
        attempt.num_submissions += 1
        submitter = self._kubelet.pod(namespace, f"{name}-{_suffix()}", template, labels)
        self._kubelet.start_command(submitter, ["/bin/bash", "-ce", command])
        attempt.submitter = submitter

    def _look(self, namespace: str, key: str, rayjob: Object) -> None:
        if self._is_suspended(namespace, rayjob) or self._is_late(namespace, rayjob):
            return
        name, attempt = rayjob["metadata"]["name"], self._tries.get(key)
        if attempt is None or attempt.submitter is None:
            self._fail(namespace, rayjob, "SubmissionFailed", "the played operator knows nothing of it")
            return
        if time.monotonic() - attempt.looked < _LOOK_EVERY_S:
            return
        attempt.looked = time.monotonic()
        for worker in attempt.workers:
            self._kubelet.notice_end(worker)
        self._set_cluster(namespace, attempt.cluster, rayjob, attempt, state="ready")
        job = self._kubelet.job(attempt.head, attempt.job_id)
        has_ended = self._kubelet.notice_end(attempt.submitter)
        if job is None:
            if has_ended:
                self._submit_again(namespace, rayjob, attempt)
            return
        is_over = job["status"] in _TERMINAL and has_ended
        changed = {"jobStatus": job["status"], "message": job.get("message") or None}
        if not is_over:
            if (rayjob["status"].get("jobStatus"), rayjob["status"].get("message")) != tuple(changed.values()):
                self._set_status(namespace, name, **changed)
            return
        if job["status"] == "FAILED":
            self._fail(namespace, rayjob, "AppFailed", changed["message"], jobStatus="FAILED")
        else:
            succeeded = (rayjob["status"].get("succeeded") or 0) + (job["status"] == "SUCCEEDED")
            ended = {"jobDeploymentStatus": "Complete", "endTime": _now(), "succeeded": succeeded}
            self._set_status(namespace, name, **changed, **ended)

    def _submit_again(self, namespace: str, rayjob: Object, attempt: Try) -> None:
        """The submitter's own tries, then the RayJob's."""
        limit = (rayjob["spec"].get("submitterConfig") or {}).get("backoffLimit", 2)
        if attempt.num_submissions > limit or attempt.head.has_ended:
            self._fail(namespace, rayjob, "SubmissionFailed", "the submitter's pods failed")
        else:
            self._submit(namespace, rayjob, attempt)

    def _fail(self, namespace: str, rayjob: Object, reason: str, message: str, **status: Any) -> None:
        """A try failed: there is another one within the limit, but for one that came too late."""
        failed = (rayjob["status"].get("failed") or 0) + 1
        retries = failed < rayjob["spec"].get("backoffLimit", 0) + 1 and reason != "DeadlineExceeded"
        self._set_status(
            namespace,
            rayjob["metadata"]["name"],
            jobDeploymentStatus="Retrying" if retries else "Failed",
            reason=reason,
            message=message,
            failed=failed,
            endTime=_now(),
            **status,
        )

    def _is_suspended(self, namespace: str, rayjob: Object) -> bool:
        if rayjob["spec"].get("suspend"):
            self._set_status(namespace, rayjob["metadata"]["name"], jobDeploymentStatus="Suspending")
            return True
        return False

    def _is_late(self, namespace: str, rayjob: Object) -> bool:
        deadline_s = rayjob["spec"].get("activeDeadlineSeconds")
        started = datetime.fromisoformat(rayjob["status"]["startTime"])
        if deadline_s is None or (datetime.now(UTC) - started).total_seconds() < deadline_s:
            return False
        self._fail(
            namespace, rayjob, "DeadlineExceeded", f"The RayJob has passed the activeDeadlineSeconds {deadline_s}"
        )
        return True

    def _take_down(self, namespace: str, key: str, rayjob: Object) -> None:
        """Delete the cluster and the submitter, then begin anew or rest."""
        self._end_try(namespace, key, keep_submitter=False)
        rests = rayjob["status"]["jobDeploymentStatus"] == "Suspending"
        self._set_status(
            namespace,
            rayjob["metadata"]["name"],
            jobDeploymentStatus="Suspended" if rests else None,
            jobStatus=None,
            jobId=None,
            rayClusterName=None,
            dashboardURL=None,
            message=None,
            reason=None,
        )

    def _wake(self, namespace: str, key: str, rayjob: Object) -> None:
        if not rayjob["spec"].get("suspend"):
            self._set_status(namespace, rayjob["metadata"]["name"], jobDeploymentStatus=None, jobStatus=None)

    def _shut_down(self, namespace: str, key: str, rayjob: Object) -> None:
        """The cluster goes when its time is over; the submitter stays, for its log."""
        spec = rayjob["spec"]
        ended = datetime.fromisoformat(rayjob["status"]["endTime"])
        is_due = (datetime.now(UTC) - ended).total_seconds() >= spec.get("ttlSecondsAfterFinished", 0)
        if spec.get("shutdownAfterJobFinishes") and is_due and key in self._tries:
            self._end_try(namespace, key, keep_submitter=True)

    def _delete(self, namespace: str, key: str, rayjob: Object) -> None:
        """Stop the job, let the object go, and delete what it owned."""
        attempt = self._tries.get(key)
        if attempt and (rayjob.get("status") or {}).get("jobStatus") not in _TERMINAL:
            self._kubelet.stop_job(attempt.head, attempt.job_id)
        self._end_try(namespace, key, keep_submitter=False)
        self._merge(namespace, rayjob["metadata"]["name"], {"metadata": {"finalizers": None}})
        self._collect(namespace, rayjob["metadata"]["uid"])

    def _end_try(self, namespace: str, key: str, *, keep_submitter: bool) -> None:
        if (attempt := self._tries.pop(key, None)) is None:
            return
        for pod in attempt.pods:
            self._kubelet.end(pod)
            if pod is not attempt.submitter or not keep_submitter:
                self._kubelet.request("DELETE", f"{_PODS.format(namespace)}/{pod.name}", {"gracePeriodSeconds": 0})
        self._kubelet.request("DELETE", f"{_RAYCLUSTERS.format(namespace)}/{attempt.cluster}")

    def _collect(self, namespace: str, uid: str) -> None:
        """What belongs to an owner that is gone goes, too."""
        for path in (f"/api/v1/namespaces/{namespace}/configmaps", _PODS.format(namespace)):
            for item in self._kubelet.request("GET", path)["items"]:
                if uid in {owner["uid"] for owner in item["metadata"].get("ownerReferences", [])}:
                    self._kubelet.request("DELETE", f"{path}/{item['metadata']['name']}", {"gracePeriodSeconds": 0})

    def _set_cluster(self, namespace: str, cluster: str, rayjob: Object, attempt: Try, *, state: str | None) -> None:
        groups = rayjob["spec"]["rayClusterSpec"].get("workerGroupSpecs", [])
        status = {
            "state": state,
            "readyWorkerReplicas": sum(worker.runs for worker in attempt.workers),
            "availableWorkerReplicas": sum(worker.runs for worker in attempt.workers),
            "desiredWorkerReplicas": sum(group["replicas"] for group in groups),
            "minWorkerReplicas": sum(group["minReplicas"] for group in groups),
            "maxWorkerReplicas": sum(group["maxReplicas"] for group in groups),
        }
        if status == attempt.cluster_status:
            return
        attempt.cluster_status = status
        path = f"{_RAYCLUSTERS.format(namespace)}/{cluster}/status"
        self._kubelet.request("PATCH", path, {"status": status}, kind="application/merge-patch+json")

    def _set_status(self, namespace: str, name: str, **status: Any) -> None:
        path = f"{_RAYJOBS.format(namespace)}/{name}/status"
        answer = self._kubelet.request("PATCH", path, {"status": status}, kind="application/merge-patch+json")
        assert answer.get("kind") != "Status" or answer.get("code") == 404, answer

    def _merge(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        path = f"{_RAYJOBS.format(namespace)}/{name}"
        self._kubelet.request("PATCH", path, change, kind="application/merge-patch+json")


def _owner(rayjob: Object) -> Object:
    metadata = rayjob["metadata"]
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": metadata["name"], "uid": metadata["uid"]}


def _suffix() -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=5))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
