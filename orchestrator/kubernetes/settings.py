"""What a sweep file and its profile say of the cluster, joined: all that the manifests are made of."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from orchestrator.kubernetes.resource_names import job_name
from search_spaces.cluster_block import ClusterBlock, StorageBlock, over
from search_spaces.load import load_profile, load_sweep, read_text
from search_spaces.problems import InputError, Problem, unknown_name
from search_spaces.schema import SweepFile

PROFILES = Path(__file__).parents[2] / "k8s" / "profiles"


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What has to be equal on all sides: a driver speaks with workers of its own Ray and Python alone."""

    densesweep: str
    ray: str
    python: str

    def __str__(self) -> str:
        return f"densesweep={self.densesweep},ray={self.ray},python={self.python}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A sweep and the cluster it is to run on.

    Attributes:
        where: the sweep file, and its profile, for messages.
        text: the sweep file as it is.
        client: the versions of this program.
    """

    where: str
    text: str
    sweep: SweepFile
    cluster: ClusterBlock
    name: str
    client: Versions

    @property
    def storage(self) -> str | None:
        """The sweep folder: of the file, else a folder of the sweep's name below the cluster's root."""
        if self.sweep.storage is not None:
            return self.sweep.storage
        root = storage_root(self.cluster.storage)
        return f"{root.rstrip('/')}/{self.sweep.name}" if root else None

    @property
    def tracking_uri(self) -> str | None:
        """The MLflow server: of the file, else the cluster's."""
        return self.sweep.tracking.uri or self.cluster.mlflow

    @property
    def image(self) -> Versions:
        """What the image holds: what is declared of it, else what it must."""
        python = self.cluster.python_version or self.client.python
        return Versions(
            densesweep=self.client.densesweep, ray=self.cluster.ray_version or self.client.ray, python=python
        )


def storage_root(storage: StorageBlock) -> str | None:
    """Where sweep folders lie by default: what is named, else the claim."""
    return storage.root or (storage.mount if storage.claim else None)


def read_settings(sweep_file: Path, *, profile: str | None = None, name: str | None = None) -> Settings:
    """Read a sweep file and its profile, whose keys stand where the file has none.

    Args:
        sweep_file: the sweep file.
        profile: the name of a profile that is shipped, or the path of a file.
        name: of the RayJob; by default the sweep's.

    Raises:
        InputError: with every problem of the one that cannot be read.
    """
    sweep = load_sweep(sweep_file)
    lower = load_profile(profile_path(profile)) if profile is not None else ClusterBlock()
    return Settings(
        where=str(sweep_file) if profile is None else f"{sweep_file} with profile {profile}",
        text=read_text(sweep_file),
        sweep=sweep,
        cluster=over(sweep.cluster, lower) if sweep.cluster else lower,
        name=job_name(sweep.name) if name is None else name,
        client=client_versions(),
    )


def client_versions() -> Versions:
    """Those of this program, without importing any of it."""
    return Versions(
        densesweep=version("densesweep"), ray=version("ray"), python=".".join(platform.python_version_tuple()[:2])
    )


def profile_path(profile: str) -> Path:
    """The file of a profile: a path, or the name of one of `k8s/profiles/`. Raises InputError where there is none."""
    if "/" in profile or profile.endswith((".yaml", ".yml")):
        return Path(profile)
    shipped = {path.stem: path for path in sorted(PROFILES.glob("*.yaml"))}
    if profile not in shipped:
        message = f"{unknown_name('profile', profile, list(shipped))}; a file is named by its path, such as ./my.yaml"
        raise InputError([Problem(where="--profile", key="", message=message)])
    return shipped[profile]
