"""The API of a Kubernetes cluster as the commands use it: objects are plain mappings, each refusal is one line."""

import json
import os
import re
import socket
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from lightkube import ApiError, Client, ConfigError
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import NameValue, User
from lightkube.core.resource import api_info
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.types import CascadeType, PatchType

from search_spaces.cluster_block import ClusterBlock
from search_spaces.problems import InputError, Problem

FIELD_MANAGER = "densesweep"
INSTANCE_LABEL = "app.kubernetes.io/instance"
OLDER_KUBERAY = (
    "the cluster's KubeRay is older and does not know this field (`cluster.kuberay` says which it is, so that what it "
    "lacks is refused by name)"
)
Object = Mapping[str, Any]

_TIMEOUT_S = 15.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _GONE, _INVALID = 401, 403, 404, 409, 410, 422
_TOO_MANY, _SERVER_FAULT = 429, 500
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}.items()
        if hasattr(socket, name)  # not on every system
    ),
]
_ROLE = "k8s/base/rbac.yaml has the role that these commands need"
_UNKNOWN_FIELD = re.compile(r"(\S+): field not declared in schema")
_EXEC_V1 = "client.authentication.k8s.io/v1"
_NAMESPACED = (
    ("ray.io", "v1", "RayJob", "rayjobs"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Event", "events"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("kueue.x-k8s.io", "v1beta1", "LocalQueue", "localqueues"),
)
_GLOBAL = (
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "Node", "nodes"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
)
_KINDS = {
    kind: create_namespaced_resource(group, version, kind, plural) for group, version, kind, plural in _NAMESPACED
}
_KINDS |= {kind: create_global_resource(group, version, kind, plural) for group, version, kind, plural in _GLOBAL}
_IS_NAMESPACED = frozenset(kind for _, _, kind, _ in _NAMESPACED)


class GoneError(Exception):
    """A watch lost its place: what it was to go on from is no longer kept, so that it has to look anew."""


class AwayError(InputError):
    """The API server does not answer now, which may pass."""


class ConflictError(InputError):
    """An object is another's, or changed meanwhile."""


class NotFoundError(InputError):
    """There is no such object."""


class UnknownKindError(InputError):
    """The cluster has no objects of this kind."""


class ForbiddenError(InputError):
    """One may not do this."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """One namespace of a cluster, as whom the kubeconfig says."""

    client: Client
    namespace: str
    server: str
    context: str

    def get(self, kind: str, name: str) -> Object | None:
        """An object, or None where there is none of this name."""
        try:
            with self._told(f"{kind} {name}"):
                return _plain(self.client.get(_KINDS[kind], name, **self._where(kind)))
        except NotFoundError:
            return None

    def all(self, kind: str) -> list[Object]:
        """Every object of a kind."""
        return self._listed(kind)

    def of_sweep(self, kind: str, name: str) -> list[Object]:
        """The objects that were made for the RayJob of this name; none where the cluster has no such kind."""
        try:
            return self._listed(kind, labels={INSTANCE_LABEL: name})
        except UnknownKindError:
            return []

    def events_of(self, kind: str, name: str) -> list[Object]:
        """What the cluster said of an object."""
        return self._listed("Event", fields={"involvedObject.kind": kind, "involvedObject.name": name})

    def _listed(self, kind: str, **selectors: Any) -> list[Object]:
        with self._told(f"the list of {kind}s"):
            found = [_plain(item) for item in self.client.list(_KINDS[kind], **selectors, **self._where(kind))]
        of = {"apiVersion": api_info(_KINDS[kind]).resource.api_version, "kind": kind}  # items of a list leave it away
        return [{**of, **item} for item in found]

    def apply(self, manifest: Object, *, manager: str, dry_run: bool = False, force: bool = False) -> Object:
        """Server-side apply.

        Raises:
            ConflictError: a field of it is another manager's, with another value.
        """
        kind = manifest["kind"]
        with self._told(f"{kind} {manifest['metadata']['name']}"):
            applied = self.client.apply(
                _KINDS[kind](manifest), **self._where(kind), field_manager=manager, dry_run=dry_run, force=force
            )
        return _plain(applied)

    def merge(self, kind: str, name: str, changes: Object) -> Object:
        """Change fields of an object that is there; with its version among them, only if it is still that one.

        Raises:
            ConflictError: it changed meanwhile.
        """
        with self._told(f"{kind} {name}"):
            changed = self.client.patch(
                _KINDS[kind],
                name,
                dict(changes),
                patch_type=PatchType.MERGE,
                field_manager=FIELD_MANAGER,
                **self._where(kind),
            )
        return _plain(changed)

    def create(self, manifest: Object) -> Object:
        """Create an object."""
        kind = manifest["kind"]
        with self._told(f"{kind} {manifest.get('metadata', {}).get('name', '')}".strip()):
            return _plain(self.client.create(_KINDS[kind](manifest), **self._where(kind)))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and, in the background, what belongs to it; one that is gone already is all right."""
        try:
            with self._told(f"{kind} {name}"):
                self.client.delete(_KINDS[kind], name, cascade=CascadeType.BACKGROUND, **self._where(kind))
        except NotFoundError:
            return

    def watch(self, kind: str, name: str, version: str, *, for_s: int) -> Iterator[Object | None]:
        """Each state of an object after this version, None once it is deleted; ends after `for_s`, or when cut off.

        Raises:
            GoneError: what came after this version is no longer known.
            AwayError: the server does not answer.
        """
        watched = self.client.watch(
            _KINDS[kind],
            fields={"metadata.name": name},
            resource_version=version,
            server_timeout=for_s,
            **self._where(kind),
        )
        with self._told(f"{kind} {name}"):
            for change, item in watched:
                yield None if change == "DELETED" else _plain(item)

    def log(self, pod: str, container: str, *, follow: bool) -> Iterator[str]:
        """The lines of a container's log."""
        with self._told(f"the log of pod {pod}"):
            yield from self.client.log(
                pod, container=container, follow=follow, namespace=self.namespace, newlines=False
            )

    def may(self, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Whether one is allowed this in the namespace."""
        asked = {"namespace": self.namespace, "verb": verb, "group": group, "resource": resource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = self.create({**review, "spec": {"resourceAttributes": {**asked, "subresource": subresource}}})
        return bool(answer.get("status", {}).get("allowed"))

    def _where(self, kind: str) -> dict[str, Any]:
        return {"namespace": self.namespace} if kind in _IS_NAMESPACED else {}

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise _refusal(error, what, self) from error
        except httpx2.HTTPStatusError as error:
            raise _bare_refusal(error, what, self) from error
        except httpx2.HTTPError as error:
            raise _away(
                self, f"the API server at {self.server} does not answer: {_line(error) or type(error).__name__}"
            ) from error
        except ConfigError as error:
            raise InputError([Problem(where=self.context, key="", message=_line(error))]) from error


def connect(namespace: str | None = None, context: str | None = None) -> Api:
    """The cluster of the kubeconfig (`KUBECONFIG`, else `~/.kube/config`), or the one that this pod runs in.

    The namespace is the one given, else that of the context, else the one that sweeps are rendered for by default.

    Raises:
        InputError: there is no kubeconfig, or nothing can be made of it.
    """
    where = os.environ.get("KUBECONFIG", "~/.kube/config")
    try:
        config = _usable(_kubeconfig(context))
        client = Client(
            config,
            namespace=namespace or config.context.namespace or ClusterBlock().namespace,
            field_manager=FIELD_MANAGER,
            timeout=httpx2.Timeout(_TIMEOUT_S),
            transport=_transport(config),
        )
    except (ConfigError, OSError, KeyError, ValueError) as error:
        message = f"no cluster to talk to: {_line(error)} (kubectl needs the same file; KUBECONFIG names another)"
        raise InputError([Problem(where=where, key="", message=message)]) from error
    return Api(
        client=client,
        namespace=client.namespace,
        server=config.cluster.server,
        context=config.context_name,
    )


def _kubeconfig(context: str | None) -> SingleConfig:
    """The context asked for, else the current one; of several files in KUBECONFIG, from the first that has it."""
    files = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if len(files) < 2:
        return KubeConfig.from_env().get(context)
    configs = [KubeConfig.from_file(file) for file in files if file.is_file()]
    wanted = context or next((config.current_context for config in configs if config.current_context), None)
    for config in configs:
        if wanted in config.contexts:
            return config.get(wanted)
    raise ConfigError(f"no file of KUBECONFIG has the context '{wanted}'")


def _transport(config: SingleConfig) -> httpx2.BaseTransport | None:
    """Connections that notice when the other side is gone without a word: a watch reads for ever.

    None behind a proxy, which they would pass by.
    """
    host = urlsplit(config.cluster.server).hostname or ""
    if urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return None
    trust = verify_cluster(config.cluster, config.user, config.abs_file)
    return httpx2.HTTPTransport(verify=trust, socket_options=_KEEP_ALIVE)


def _usable(config: SingleConfig) -> SingleConfig:
    """Lightkube wants a user, and of credential plugins the older protocol, whose answer is the same."""
    user = config.user or User()
    if user.exec and user.exec.apiVersion == _EXEC_V1:
        asked = {"apiVersion": _EXEC_V1, "kind": "ExecCredential", "spec": {"interactive": False}}
        user.exec.env = [*(user.exec.env or []), NameValue(name="KUBERNETES_EXEC_INFO", value=json.dumps(asked))]
        user.exec.apiVersion = "client.authentication.k8s.io/v1beta1"
    return config._replace(user=user)


def _refusal(error: ApiError, what: str, api: Api) -> Exception:
    status = error.status
    code, message = status.code or 0, _line(status.message)
    if unknown := _UNKNOWN_FIELD.findall(message):  # which comes as a fault of the server, and is none that passes
        return InputError(Problem(where=what, key=field.lstrip("."), message=OLDER_KUBERAY) for field in unknown)
    if code >= _SERVER_FAULT or code == _TOO_MANY:  # it starts, is overloaded, or has lost its etcd for a moment
        return _away(api, f"the API server at {api.server} cannot answer now: {message}")
    if code == _CONFLICT and status.reason in ("Conflict", None):
        return ConflictError([Problem(where=what, key="", message=message)])
    if code == _GONE:
        return GoneError(message)
    causes = (status.details.causes if status.details else None) or []
    if code == _INVALID and causes:
        return InputError(Problem(where=what, key=cause.field or "", message=_line(cause.message)) for cause in causes)
    if code == _NOT_FOUND:
        return _not_found(message, what, api)
    kind = ForbiddenError if code == _FORBIDDEN else InputError
    return kind([Problem(where=what, key="", message=f"{message}{_hint(code)}")])


def _bare_refusal(error: httpx2.HTTPStatusError, what: str, api: Api) -> Exception:
    """Of one that came with no object of the kind Status, such as a proxy's."""
    code = error.response.status_code
    if code == _GONE:
        return GoneError(what)
    if code == _NOT_FOUND:
        return _not_found("404 Not Found", what, api)
    if code >= _SERVER_FAULT:
        return _away(api, f"{api.server} answers {code}")
    return InputError([Problem(where=what, key="", message=f"{api.server} answers {code}{_hint(code)}")])


def _away(api: Api, message: str) -> AwayError:
    return AwayError([Problem(where=api.context, key="", message=message)])


def _not_found(message: str, what: str, api: Api) -> InputError:
    if "requested resource" in message or message.startswith("404"):
        kind = what.removeprefix("the list of ").split()[0].rstrip("s")
        message = f"{api.server} knows no kind {kind}"
        if kind.startswith("Ray"):
            message += ": KubeRay is not installed there (or older than 1.0)"
        return UnknownKindError([Problem(where=what, key="", message=message)])
    return NotFoundError([Problem(where=what, key="", message=message)])


def _hint(code: int) -> str:
    if code == _UNAUTHORIZED:
        return " (the credentials of the kubeconfig are not taken: log in again)"
    return f" ({_ROLE})" if code == _FORBIDDEN else ""


def _plain(item: Any) -> Object:
    return item.to_dict() if hasattr(item, "to_dict") else dict(item)


def _line(error: object) -> str:
    return " ".join(str(error).split())
