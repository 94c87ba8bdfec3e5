"""Who gives commands to a real API server: somebody with a kubeconfig, and a small sweep to submit."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.densesweep_here import densesweep_here
from tests.small_content import extended, small_content

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody with a kubeconfig, in a folder of their own."""

    kubeconfig: Path
    folder: Path
    namespace: str

    def start(self, *arguments: str, stderr: int = subprocess.PIPE, **variables: str) -> subprocess.Popen:
        """Start `densesweep ARGUMENTS` as a process."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "KUBECONFIG": str(self.kubeconfig),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator.cli", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run `densesweep ARGUMENTS` to its end, in this process: what costs time is to start one."""
        named = {"KUBECONFIG": str(self.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
        return densesweep_here(*arguments, folder=self.folder, variables=named)


def sweep_content(name: str, namespace: str, mount: Path, **blocks: Any) -> dict[str, Any]:
    """A sweep of package data and one layer of MiniLM, and the small cluster that it is to run on."""
    content = small_content(name, "attack", steps=4) | {
        "cluster": {
            "namespace": namespace,
            "image": "registry.example/densesweep:0.1.0",
            "auth": "disabled",
            "storage": {"claim": "sweeps", "mount": str(mount)},
            "head": {"cpus": 1, "memory": "4GiB"},
            "workers": {"cpu": {"cpus": 1, "memory": "3GiB", "max": 2}},
            "ttl_s": 0,
            "backoff_limit": 1,
        },
    }
    return extended(content, blocks)
