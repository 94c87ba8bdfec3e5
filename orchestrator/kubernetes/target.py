"""Which RayJob a command is about: named by itself, or by the sweep file that it is of. Needs no cluster."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from orchestrator.kubernetes.settings import read_settings
from search_spaces.problems import InputError, Problem


@dataclass(frozen=True, kw_only=True)
class Target:
    """A RayJob; the namespace is the kubeconfig's where it is None."""

    name: str
    namespace: str | None


def target_of(named: str, *, profile: str | None, namespace: str | None) -> Target:
    """The RayJob that is meant. Raises InputError where a sweep file is, and cannot be read."""
    path = Path(named)
    if path.suffix not in (".yaml", ".yml"):
        return Target(name=named, namespace=namespace)
    settings = read_settings(path, profile=profile)
    return Target(name=settings.name, namespace=namespace or settings.cluster.namespace)


def check_client() -> None:
    """Raise InputError where what talks to clusters is not installed."""
    if find_spec("lightkube") is None:
        message = "talking to a cluster needs an extra: pip install 'densesweep[k8s]' ('k8s render' needs none)"
        raise InputError([Problem(where="densesweep k8s", key="", message=message)])
