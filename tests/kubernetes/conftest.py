"""Fixtures of tests with a real API server (`api_server`), on which an operator is played (`played_operator`)."""

import contextlib
import io
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from api_server import ApiServer, api_server
from played_kubelet import PlayedKubelet
from played_operator import PlayedOperator

from orchestrator.cli import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody with a kubeconfig, in a folder of their own."""

    kubeconfig: Path
    folder: Path
    namespace: str

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen:
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
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run `densesweep ARGUMENTS` to its end, in this process: what costs time is to start one."""
        out, err = io.StringIO(), io.StringIO()
        named = {"KUBECONFIG": str(self.kubeconfig), "COLUMNS": "200", "NO_COLOR": "1"}
        with (
            mock.patch.dict(os.environ, named),
            mock.patch.object(sys, "argv", ["densesweep", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(self.folder),
        ):
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def server() -> Iterator[ApiServer]:
    """A real API server for all tests; each takes a namespace of its own."""
    with api_server() as started:
        yield started


@pytest.fixture
def namespace(server: ApiServer) -> str:
    return server.add_namespace(f"sweeps-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def user(server: ApiServer, namespace: str, tmp_path: Path) -> User:
    """The administrator, as whom everything is allowed."""
    config = server.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    return User(kubeconfig=config, folder=tmp_path, namespace=namespace)


@pytest.fixture
def with_role(server: ApiServer, namespace: str, tmp_path: Path) -> Callable[[str], User]:
    """Users who are service accounts, with the roles of k8s/base."""
    kinds = {"ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts"}
    kinds |= {
        kind: f"/apis/rbac.authorization.k8s.io/v1/namespaces/{{}}/{kind.lower()}s" for kind in ("Role", "RoleBinding")
    }
    for manifest in yaml.safe_load_all((ROOT / "k8s/base/rbac.yaml").read_text()):
        server.create(kinds[manifest["kind"]].format(namespace), manifest)

    def user_of(account: str) -> User:
        token = server.token_of(account, namespace)
        config = server.kubeconfig(tmp_path / f"{account}.kubeconfig", token=token, namespace=namespace)
        return User(kubeconfig=config, folder=tmp_path, namespace=namespace)

    return user_of


@pytest.fixture(scope="session")
def kubelet(server: ApiServer) -> Iterator[PlayedKubelet]:
    """The one node."""
    played = PlayedKubelet(server).start()
    yield played
    played.stop()


@pytest.fixture
def operator(kubelet: PlayedKubelet, namespace: str) -> Iterator[PlayedOperator]:
    """Who runs what is submitted to the test's namespace."""
    played = PlayedOperator(kubelet, [namespace]).start()
    yield played
    played.stop()
    assert not played.faults


@pytest.fixture
def write_sweep(namespace: str, tmp_path: Path) -> Callable[..., Path]:
    """Write a sweep file that runs in the test's namespace, on a claim that is mounted here."""

    def write(name: str = "tiny", **blocks: Any) -> Path:
        file = tmp_path / f"{name}-{uuid.uuid4().hex[:4]}.yaml"
        file.write_text(yaml.safe_dump(sweep_content(name, namespace, tmp_path / "mnt", **blocks), sort_keys=False))
        return file

    return write


def sweep_content(name: str, namespace: str, mount: Path, **blocks: Any) -> dict[str, Any]:
    """A sweep of package data and one layer of MiniLM, and the small cluster that it is to run on."""
    content: dict[str, Any] = {
        "name": name,
        "axes": {
            "task": "contrastive",
            "training_data": "attack",
            "family": {"name": "minilm", "layers": 1, "max_query_length": 16, "max_document_length": 16},
            "similarity": ["cosine", "qnorm"],
            "init_regime": "finetune",
            "seed": 0,
            "scale": "fixed(20)",
        },
        "training": {"steps": 4, "global_batch": 8, "learning_rate": 1e-4},
        "evaluation": {"groups": {"in_domain": "attack"}},
        "probe": {"num_queries": 32, "candidates_per_query": 8},
        "checkpoints": {"every_steps": 2},
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
    for key, value in blocks.items():
        merge = isinstance(content.get(key), dict) and isinstance(value, dict)
        content[key] = {**content[key], **value} if merge else value
    return content
