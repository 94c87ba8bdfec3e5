"""What a sweep asks of a cluster that this one could never give: told from the file alone, before anything is sent."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from orchestrator.jobs.checks import named_places
from orchestrator.kubernetes.ray_cluster import RAY_OWN_BYTES, worker_node
from orchestrator.kubernetes.ray_job import PLAIN, entry_point
from orchestrator.kubernetes.settings import Settings
from orchestrator.requests import lacking, request_of, request_of_probe
from results.store import OBJECT_SCHEMES, local_folder
from search_spaces.cluster_block import WorkerGroupBlock
from search_spaces.problems import Problem
from search_spaces.sizes import size_text

LEAST_KUBERAY = "1.4"
_SERVERS = ("http", "https", "postgresql", "mysql", "mssql")


def problems(settings: Settings) -> Iterator[Problem]:
    """Every reason for which the sweep could not run on the cluster, each with file and key."""
    cluster = settings.cluster
    if not cluster.image:
        yield _problem(
            settings, "cluster.image", "is required, of the file or a profile: what holds densesweep and Ray"
        )
    if not cluster.workers:
        yield _problem(settings, "cluster.workers", "is required, of the file or a profile: a group that trials run in")
    groups = {name: group for name, group in cluster.workers.items() if _is_sized(group)}
    for name, group in cluster.workers.items():
        yield from _group_problems(settings, name, group)
    yield from _version_problems(settings)
    yield from _operator_problems(settings)
    yield from _unread_problems(settings)
    yield from _storage_problems(settings)
    yield from _source_problems(settings)
    yield from _tracking_problems(settings)
    yield from _time_problems(settings)
    if groups and len(groups) == len(cluster.workers):
        yield from _fit_problems(settings, groups)


def _problem(settings: Settings, key: str, message: str) -> Problem:
    return Problem(where=settings.where, key=key, message=message)


def _is_sized(group: WorkerGroupBlock) -> bool:
    return group.cpus is not None and group.memory is not None


def _group_problems(settings: Settings, name: str, group: WorkerGroupBlock) -> Iterator[Problem]:
    key = f"cluster.workers.{name}"
    for field in ("cpus", "memory"):
        if getattr(group, field) is None:
            yield _problem(settings, f"{key}.{field}", "is required, of the file or a profile")
    if group.memory is not None and group.memory <= RAY_OWN_BYTES:
        own = size_text(RAY_OWN_BYTES)
        message = f"{size_text(group.memory)}, of which Ray itself takes {own}: nothing is left for trials"
        yield _problem(settings, f"{key}.memory", message)
    if group.accelerator_type and not group.gpus:
        message = f"'{group.accelerator_type}' is a kind of GPU, and the group has none (write how many: gpus)"
        yield _problem(settings, f"{key}.accelerator_type", message)
    if group.spot and settings.sweep.resources.retries == 0:
        message = (
            f"0, and spot nodes of group '{name}' are taken back at any time: their trials would be lost (1 or more)"
        )
        yield _problem(settings, "resources.retries", message)


def _version_problems(settings: Settings) -> Iterator[Problem]:
    image, client = settings.image, settings.client
    if image.ray != client.ray:
        message = f"the image has Ray {image.ray}, and this client {client.ray}: they have to be equal"
        yield _problem(settings, "cluster.ray_version", f"{message} (build the image with --build-arg RAY_VERSION)")
    if image.python.split(".")[:2] != client.python.split(".")[:2]:
        message = f"the image has Python {image.python}, and this client {client.python}: they have to be equal"
        yield _problem(settings, "cluster.python_version", message)


def _operator_problems(settings: Settings) -> Iterator[Problem]:
    """Keys that the operator, where its version is said, does not know yet: it refuses or ignores their fields."""
    cluster = settings.cluster
    if cluster.kuberay is None:
        return
    asked = {
        "auth": ("1.5.1", cluster.auth == "token", "write `auth: disabled`"),
        "deletion": ("1.5", bool(cluster.deletion), "write `ttl_s`"),
        "submission": ("1.5", cluster.submission == "SidecarMode", "write K8sJobMode or HTTPMode"),
        "start_deadline_s": ("1.6", cluster.start_deadline_s is not None, "leave it away"),
    }
    for key, (since, is_asked, instead) in asked.items():
        if is_asked and _parts(cluster.kuberay) < _parts(since):
            message = f"needs KubeRay {since} or newer, and `kuberay` says {cluster.kuberay} ({instead})"
            yield _problem(settings, f"cluster.{key}", message)
    if _parts(cluster.kuberay) < _parts(LEAST_KUBERAY):
        message = f"{cluster.kuberay}, and RayJobs of densesweep need {LEAST_KUBERAY} or newer"
        yield _problem(settings, "cluster.kuberay", message)


def _unread_problems(settings: Settings) -> Iterator[Problem]:
    """Keys that mean nothing without another."""
    cluster = settings.cluster
    if cluster.queue_priority and not cluster.queue:
        message = f"'{cluster.queue_priority}', but there is no `queue` that it could be a priority in"
        yield _problem(settings, "cluster.queue_priority", message)
    if cluster.auth_secret and cluster.auth == "disabled":
        yield _problem(settings, "cluster.auth_secret", f"'{cluster.auth_secret}', but `auth` is disabled")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in [*version.split("."), "0"][:3])


def _storage_problems(settings: Settings) -> Iterator[Problem]:
    storage, cluster = settings.storage, settings.cluster
    key = "cluster.storage.root" if settings.sweep.storage is None else "storage"
    if storage is None:
        hint = "a bucket as `root` (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX), or a `claim` that all pods mount"
        yield _problem(settings, "cluster.storage", f"names no storage that all pods see: {hint}")
    elif (folder := local_folder(storage)) is not None:
        mount = cluster.storage.mount
        if not PurePosixPath(folder).is_absolute() or not cluster.storage.claim:
            hint = "name a bucket, or a `cluster.storage.claim` that all pods mount"
            yield _problem(
                settings, key, f"'{storage}' is a folder of one machine, and all pods have to see it ({hint})"
            )
        elif not PurePosixPath(folder).is_relative_to(mount):
            message = f"'{storage}' is not below {mount}, where claim '{cluster.storage.claim}' is mounted in every pod"
            yield _problem(settings, key, message)
    elif (scheme := storage.partition("://")[0]) not in OBJECT_SCHEMES:
        allowed = ", ".join(f"{name}://BUCKET/PREFIX" for name in OBJECT_SCHEMES)
        yield _problem(settings, key, f"'{storage}': sweep folders are not kept on {scheme}:// (allowed: {allowed})")
    if storage is not None:
        for argument in entry_point(settings):
            if not PLAIN.fullmatch(argument):
                where = (
                    key if argument == storage else "tracking.uri" if settings.sweep.tracking.uri else "cluster.mlflow"
                )
                yield _problem(settings, where, _not_plain(argument))


def _not_plain(argument: str) -> str:
    odd = "".join(sorted({letter for letter in argument if not PLAIN.fullmatch(letter)}))
    return (
        f"{argument!r} has {odd!r}, which shells read on the command's way to the head (letters, digits and "
        "_ @ % + = : , . / - go through)"
    )


def _source_problems(settings: Settings) -> Iterator[Problem]:
    """What lies on this machine alone: data, weights and earlier sweeps that no pod would find."""
    for key, place in named_places(settings.sweep):
        folder, storage = local_folder(place), settings.cluster.storage
        is_mounted = storage.claim and folder is not None and PurePosixPath(folder).is_relative_to(storage.mount)
        if folder is not None and not is_mounted:
            hint = "take it from the hub, a package, a bucket, or a claim that is mounted at the same path"
            yield _problem(settings, key, f"'{place}' lies on this machine, where no pod sees it ({hint})")


def _tracking_problems(settings: Settings) -> Iterator[Problem]:
    uri = settings.tracking_uri
    if uri is None:
        return
    key = "tracking.uri" if settings.sweep.tracking.uri else "cluster.mlflow"
    parts = urlsplit(uri)
    if parts.scheme.partition("+")[0] not in _SERVERS:
        message = f"'{uri}' is no server that pods reach (allowed: {', '.join(f'{name}://' for name in _SERVERS)})"
        yield _problem(settings, key, message)
    if parts.password:
        hint = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in a Secret that `cluster.secrets` names"
        yield _problem(settings, key, f"holds a password, which everybody could read who sees the RayJob ({hint})")


def _time_problems(settings: Settings) -> Iterator[Problem]:
    deadline_s, wall_hours = settings.cluster.deadline_s, settings.sweep.budget.wall_hours
    if deadline_s is not None and wall_hours is not None and deadline_s <= wall_hours * 3600:
        message = (
            f"{deadline_s} s, and the budget lasts {wall_hours:g} h: it would be killed before it ends by itself "
            "(a longer deadline, or a smaller budget.wall_hours)"
        )
        yield _problem(settings, "cluster.deadline_s", message)


def _fit_problems(settings: Settings, groups: dict[str, WorkerGroupBlock]) -> Iterator[Problem]:
    """Trials and probes that no group has room for, even when each is as large as it gets."""
    sweep = settings.sweep
    nodes = [worker_node(group) for group in groups.values() for _ in range(group.max)]
    of_trial, of_probe = request_of(sweep.resources), request_of_probe(sweep.probe.resources, sweep.resources)
    trial = lacking(nodes, of_trial, num_processes=sweep.resources.devices)
    if trial:
        yield _problem(settings, "resources", f"{trial} (groups at their maximum, less what Ray itself takes)")
    probe = lacking(nodes, of_probe)
    if probe and not (trial and of_probe == of_trial):
        message = probe.replace("a trial needs", "a probe needs", 1)
        yield _problem(settings, "probe.resources", f"{message} (groups at their maximum, less what Ray itself takes)")
