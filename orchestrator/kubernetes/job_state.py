"""How a RayJob stands, as KubeRay wrote it: its deployment and Ray's own job are two states, which can disagree."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# What KubeRay looks at no more: only a change of the spec, or a new object, starts anything.
_OVER = ("Complete", "Failed", "ValidationFailed")
_AT_REST = (*_OVER, "Suspended")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
Outcome = Literal["succeeded", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True)
class JobState:
    """One look at a RayJob.

    Attributes:
        deployment: of KubeRay: New, Initializing, Running, Retrying, Suspending, Suspended, Waiting, Complete, Failed.
        job: of Ray, or empty where Ray has not said yet: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED.
        num_failed: how many tries failed.
        num_retries: how many more than one there may be.
        is_to_rest: whether its spec says that it is to be suspended.
    """

    name: str
    uid: str
    version: str
    deployment: str
    job: str
    reason: str
    message: str
    started_at: str
    ended_at: str
    num_failed: int
    num_retries: int
    cluster: str
    job_id: str
    is_to_rest: bool
    is_being_deleted: bool
    queue: str | None
    shuts_down: bool

    @property
    def is_over(self) -> bool:
        """Whether it ended, one way or the other."""
        return self.deployment in _OVER

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs or is about to."""
        return self.deployment in _AT_REST

    @property
    def outcome(self) -> Outcome | None:
        """How it ended. Where the two states disagree, one of them saw what the other did not: it did not succeed."""
        if not self.is_over:
            return None
        if self.deployment == "Complete":
            return {"SUCCEEDED": "succeeded", "STOPPED": "stopped"}.get(self.job, "failed")  # type: ignore[return-value]
        return "failed"

    @property
    def disagreement(self) -> str | None:
        """What to say where the two states cannot both be the last word."""
        if self.is_over and self.job in ("", "PENDING", "RUNNING"):
            seen = self.job or "nothing yet"
            return f"KubeRay gave up while Ray said {seen}: the driver may have gone on, and the sweep folder knows"
        if self.deployment == "Failed" and self.job == "SUCCEEDED":
            return "Ray says SUCCEEDED, KubeRay Failed: what submitted the job failed after it, the sweep is finished"
        return None

    def __str__(self) -> str:
        tries = f", {self.num_failed} of {self.num_retries + 1} tries failed" if self.num_failed else ""
        told = ", ".join(part for part in (self.reason, self.message) if part)
        ray = f", Ray's job {self.job}" if self.job else ""
        return f"{self.deployment}{ray}{tries}" + (f" ({' '.join(told.split())})" if told else "")


def state_of(rayjob: Mapping[str, Any]) -> JobState:
    """The state of a RayJob as the API server gives it."""
    metadata, spec, status = rayjob["metadata"], rayjob.get("spec", {}), rayjob.get("status") or {}
    return JobState(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        deployment=status.get("jobDeploymentStatus") or "New",
        job=status.get("jobStatus") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        started_at=status.get("startTime") or "",
        ended_at=status.get("endTime") or "",
        num_failed=status.get("failed") or 0,
        num_retries=spec.get("backoffLimit") or 0,
        cluster=status.get("rayClusterName") or "",
        job_id=status.get("jobId") or "",
        is_to_rest=bool(spec.get("suspend")),
        is_being_deleted=bool(metadata.get("deletionTimestamp")),
        queue=(metadata.get("labels") or {}).get(QUEUE_LABEL),
        shuts_down=bool(spec.get("shutdownAfterJobFinishes")),
    )
