"""What a run was made with: commit, Python, package versions, hardware. Read without importing any framework."""

import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

_PROJECT = Path(__file__).resolve().parent.parent
_DISTRIBUTION = "densesweep"
_COMMAND_TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where rows come from. What cannot be found out is None or empty; no host or user name is kept.

    `commit` and `dirty` (tracked files differ from the commit) are those of the project's own checkout, None where
    it is installed without one. `packages` maps distribution names to versions.
    """

    commit: str | None
    dirty: bool | None
    python: str
    platform: str
    packages: dict[str, str]
    cpu_model: str | None
    num_cores: int
    memory_bytes: int
    accelerators: tuple[str, ...]

    def to_json(self) -> str:
        """One line of JSON with sorted keys, as stored in the rows of a trial."""
        return json.dumps(asdict(self), sort_keys=True)


@cache
def provenance() -> Provenance:
    """The provenance of this process, found out once."""
    commit, dirty = git_state(_PROJECT)
    return Provenance(
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        packages=package_versions(_DISTRIBUTION),
        cpu_model=_cpu_model(),
        num_cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        accelerators=accelerators(),
    )


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, dirty) of the checkout whose top is `folder`; (None, None) where it is none or has no commit yet.

    A folder that only lies inside some other checkout (an environment in it, say) is not that checkout.
    """
    top = _output("git", "-C", str(folder), "rev-parse", "--show-toplevel")
    commit = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    if not top or not commit or Path(top).resolve() != folder.resolve():
        return None, None
    changes = _output("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def package_versions(distribution: str) -> dict[str, str]:
    """Versions of `distribution` and of the packages it requires (its extras not counted), where installed."""
    names = [distribution]
    try:
        names += [_name(line) for line in metadata.requires(distribution) or () if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        return {}
    versions = {}
    for name in sorted(names):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return requirement[:end]


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def accelerators() -> tuple[str, ...]:
    """The names of this machine's GPUs, as its driver lists them."""
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return tuple(names.splitlines()) if names else ()


def _output(*command: str) -> str | None:
    """What the command prints, or None where it is absent, fails or hangs."""
    if shutil.which(command[0]) is None:
        return None
    # A git hook's GIT_DIR would answer for another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
