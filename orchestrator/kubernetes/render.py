"""A sweep file as Kubernetes objects: the same for the same file, and refused where a cluster would only fail later."""

from pathlib import Path

from orchestrator.kubernetes.checks import problems
from orchestrator.kubernetes.config_map import config_map
from orchestrator.kubernetes.disruption_budget import disruption_budget
from orchestrator.kubernetes.pods import Manifest
from orchestrator.kubernetes.ray_job import ray_job
from orchestrator.kubernetes.rules import violations
from orchestrator.kubernetes.settings import Settings, read_settings
from search_spaces.problems import InputError, Problem


def rendered(sweep_file: Path, *, profile: str | None = None, name: str | None = None) -> list[Manifest]:
    """The manifests of a sweep in the order to apply them: its ConfigMap, a disruption budget if asked for, its RayJob.

    Args:
        sweep_file: the sweep file.
        profile: the name of a shipped profile, or the path of one; the file's keys go before its.
        name: of the RayJob; by default the sweep's.

    Raises:
        InputError: with every reason for which it would not run as it should; nothing was sent anywhere.
    """
    return manifests(read_settings(sweep_file, profile=profile, name=name))


def manifests(settings: Settings) -> list[Manifest]:
    """The manifests of what was read. Raises InputError as `rendered`."""
    if found := list(problems(settings)):
        raise InputError(found)
    budget = [disruption_budget(settings)] if settings.cluster.head.disruption_budget else []
    made = [config_map(settings), *budget, ray_job(settings)]
    if broken := violations(made):
        raise InputError(Problem(where=settings.where, key="", message=message) for message in broken)
    return made
