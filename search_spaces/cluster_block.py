"""Where a sweep runs under Kubernetes: the block `cluster` of a sweep file, and the whole of a profile.

Each key may stand in either; `over` says how they join. What the keys mean together is checked where they are rendered
(`orchestrator.kubernetes`). None of it is part of an identity.
"""

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from search_spaces.blocks import Block, Bytes, different

Blocks = TypeVar("Blocks", bound=Block)

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(?i)(password|passwd|secret|token|credential|access_?key|api_?key|private_?key)")
_PATHS_OF_SECRETS = re.compile(r"GOOGLE_APPLICATION_CREDENTIALS|AWS_WEB_IDENTITY_TOKEN_FILE|.*_(FILE|PATH)")


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        what = "at most 63 lower-case letters, digits and '-', a letter first and no '-' at the end"
        raise ValueError(f"'{value}' is not a name of Kubernetes ({what})")
    return value


def _subdomain(value: str) -> str:
    if not _SUBDOMAIN.fullmatch(value):
        raise ValueError(f"'{value}' is not a name of Kubernetes (lower-case letters, digits, '-' and '.')")
    return value


def _folder(value: str) -> str:
    if not value.startswith("/") or ".." in value.split("/") or value.rstrip("/") == "":
        raise ValueError(f"'{value}' is no absolute path of a folder (such as /mnt/sweeps)")
    return value.rstrip("/")


def _variables(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"'{name}' is not a name of an environment variable")
        if is_secret(name):
            hint = "put it into a Secret of the cluster, and that one's name into `secrets`"
            raise ValueError(f"'{name}' looks like a secret, and a sweep file holds none ({hint})")
    return value


def is_secret(variable: str) -> bool:
    """Whether an environment variable of this name holds what nobody should read, and not only where it lies."""
    return _SECRET.search(variable) is not None and not _PATHS_OF_SECRETS.fullmatch(variable)


Label = Annotated[str, AfterValidator(_label)]
Subdomain = Annotated[str, AfterValidator(_subdomain)]
LabelText = Annotated[str, AfterValidator(_subdomain), Field(max_length=63)]  # a name that stands in a label
Folder = Annotated[str, AfterValidator(_folder)]
Variables = Annotated[dict[str, str], AfterValidator(_variables)]
Version = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?$")]
Seconds = Annotated[int, Field(gt=0, lt=2**31)]
Names = Annotated[tuple[Subdomain, ...], AfterValidator(different)]


class TolerationBlock(Block):
    """A taint of nodes that pods are placed on all the same; one without key is every taint."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class HeadBlock(Block):
    """The pod of the head, where the driver runs and no trial does."""

    cpus: int = Field(default=2, gt=0)
    memory: Bytes = Field(default=8 << 30, json_schema_extra={"default": "8GiB"})
    node_selector: dict[str, str] = Field(default={})
    tolerations: tuple[TolerationBlock, ...] = ()
    disruption_budget: bool = False


class WorkerGroupBlock(Block):
    """Pods of one kind that trials run in, from `min` to `max` of them; without autoscaling `max`.

    `spot` names whose nodes that can be taken back at any time: it stands for the node selector and the toleration that
    they are known by there. `cpus` and `memory` are required, of the file or its profile.
    """

    cpus: int | None = Field(default=None, gt=0)
    memory: Bytes | None = None
    gpus: int = Field(default=0, ge=0)
    accelerator_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")] | None = None
    min: int = Field(default=0, ge=0)
    max: int = Field(default=1, gt=0)
    spot: Literal["aks", "eks", "gke", "karpenter"] | None = None
    disk: Bytes | None = None
    node_selector: dict[str, str] = Field(default={})
    tolerations: tuple[TolerationBlock, ...] = ()


class StorageBlock(Block):
    """Where sweep folders lie that all pods see: a bucket, or a claim that several nodes mount at once."""

    root: str | None = None
    endpoint: str | None = None
    region: str | None = None
    claim: Subdomain | None = None
    mount: Folder = "/mnt/sweeps"


class AutoscalingBlock(Block):
    """Ray's autoscaler (version 2) starts pods of a group when trials wait and ends those that are idle."""

    idle_s: Seconds = 120
    upscaling: Literal["Default", "Aggressive", "Conservative"] = "Default"


class DeletionBlock(Block):
    """What KubeRay deletes when the sweep has ended so, and how long after."""

    when: Literal["succeeded", "failed", "deployment_failed"]
    delete: Literal["workers", "cluster", "self", "none"]
    after_s: int = Field(default=0, ge=0, lt=2**31)


class ClusterBlock(Block):
    """A Ray cluster that KubeRay makes for one sweep and takes away after it."""

    namespace: Label = "densesweep"
    kuberay: Version | None = None
    image: str | None = None
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    image_pull_secrets: Names = ()
    ray_version: Version | None = None
    python_version: Version | None = None
    service_account: Subdomain = "densesweep"
    auth: Literal["token", "disabled"] = "token"
    auth_secret: Subdomain | None = None
    secrets: Names = ()
    secret_files: dict[Subdomain, Folder] = Field(default={})
    env: Variables = Field(default={})
    storage: StorageBlock = StorageBlock()
    mlflow: str | None = None
    head: HeadBlock = HeadBlock()
    workers: dict[Label, WorkerGroupBlock] = Field(default={})
    autoscaling: AutoscalingBlock | None = None
    queue: LabelText | None = None
    queue_priority: LabelText | None = None
    priority_class: Subdomain | None = None
    submission: Literal["K8sJobMode", "HTTPMode", "SidecarMode"] = "K8sJobMode"
    ttl_s: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    deletion: tuple[DeletionBlock, ...] = ()
    deadline_s: Seconds | None = 7 * 24 * 3600
    start_deadline_s: Seconds | None = None
    placement_timeout_s: Seconds = 1800
    backoff_limit: int = Field(default=3, ge=1, lt=2**31)


def over(upper: Blocks, lower: Blocks) -> Blocks:
    """The lower block with each key that the upper one gives, key by key down to values and lists."""
    given = {name: _over(getattr(upper, name), getattr(lower, name)) for name in upper.model_fields_set}
    return lower.model_copy(update=given)


def _over(upper: Any, lower: Any) -> Any:
    if isinstance(upper, Block) and isinstance(lower, Block):
        return over(upper, lower)
    if isinstance(upper, dict) and isinstance(lower, dict):
        return lower | {key: _over(value, lower[key]) if key in lower else value for key, value in upper.items()}
    return upper
