"""k8s/README.md as a new user follows it, up to where nodes are needed: its own lines, on a real API server."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from cluster_users import ROOT
from overlays import OVERLAYS, kubectl

pytestmark = pytest.mark.slow

README = (ROOT / "k8s" / "README.md").read_text()
# What an image is made with (test_dockerfile does), and what waits for pods or talks to them.
NOT_HERE = ("python -m pip wheel", "docker ", "kubectl wait", "kubectl port-forward")
ANOTHER_IMAGE = "kubectl delete job -n densesweep mlflow-migration --ignore-not-found"
NAMESPACE = "/api/v1/namespaces/densesweep"


def commands():
    """Each line of its blocks that is a command to copy, once, in its order."""
    parts = README.split("```")[1::2]
    blocks = [part.partition("\n")[2] for part in parts if part.startswith("\n")]  # others say a language
    lines = [re.sub(r"\s+# .*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in dict.fromkeys(lines) if "FILE" not in line and not line.startswith(NOT_HERE)]


@pytest.fixture
def shell(server, tmp_path):
    """Run a line in a shell, in the repository, as whoever has the kubeconfig of the administrator."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (
        ("densesweep", f'{shlex.quote(sys.executable)} -m orchestrator.cli "$@"'),
        # kubectl holds objects against schemas that 1.20 does not serve; the server itself looks all the same.
        ("kubectl", f'[ "$1" = apply ] && set -- "$@" --validate=false; exec {shlex.quote(kubectl())} "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{command}\n")
        (programs / name).chmod(0o755)
    variables = {
        **os.environ,
        "COLUMNS": "200",
        "KUBECONFIG": str(server.kubeconfig(tmp_path / "kubeconfig")),
        "NO_COLOR": "1",
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }

    def run(line, code=0):
        line = line.replace("=credentials.env", f"={tmp_path}/credentials.env")
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=ROOT, env=variables, capture_output=True, text=True
        )
        assert done.returncode == code, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    (tmp_path / "credentials.env").write_text("AWS_ACCESS_KEY_ID=id\nAWS_SECRET_ACCESS_KEY=key\n")
    return run


def test_its_lines_set_a_cluster_up_and_bring_a_sweep_to_it(server, shell):
    followed = commands()
    assert len(followed) >= 5
    assert f"`{ANOTHER_IMAGE}`" in README
    told = [shell(line) for line in followed]
    assert "rayjob.ray.io/demo serverside-applied" in told[-1]
    kinds = {"serviceaccounts": "densesweep", "secrets": "sweep-storage", "configmaps": "demo-sweep"}
    for kind, name in kinds.items():
        assert server.request("GET", f"{NAMESPACE}/{kind}/{name}")["metadata"]["name"] == name

    # Then the commands of "Running sweeps", in their order, on what the dev overlay has beside.
    shell(ANOTHER_IMAGE)
    shell("kubectl apply --server-side -k k8s/overlays/dev")
    file = "search_spaces/demo.yaml --profile local"
    assert "PersistentVolumeClaim sweeps" in shell(f"densesweep k8s doctor {file}")
    assert "would be sent" in shell(f"densesweep k8s submit {file} --dry-run=client --name again")
    assert "would be created" in shell(f"densesweep k8s submit {file} --dry-run=server --name again")
    assert "RayJob again is submitted" in shell(f"densesweep k8s submit {file} --name again")
    assert "RayJob again" in shell("densesweep k8s status again -n densesweep")
    assert "is suspended" in shell("densesweep k8s cancel again -n densesweep")
    assert {"again", "demo"} <= set(shell("densesweep k8s status -n densesweep").split())
    assert "is deleted, as asked" in shell("densesweep k8s cancel demo -n densesweep --delete")


@pytest.mark.parametrize("overlay", [name for name in OVERLAYS if name != "kueue"])  # its kinds are Kueue's
def test_a_real_server_takes_every_object_of_an_overlay(shell, overlay):
    shell(ANOTHER_IMAGE)
    shell(f"kubectl apply --server-side -k k8s/overlays/{overlay}")  # its namespaces have to be there
    again = shell(f"kubectl apply --server-side -k k8s/overlays/{overlay} --dry-run=server")
    assert all(line.endswith("serverside-applied (server dry run)") for line in again.splitlines())
