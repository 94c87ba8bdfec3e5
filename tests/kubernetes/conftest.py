"""Fixtures of tests with a real API server (`api_server`), on which an operator is played (`played_operator`)."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, api_server
from cluster_users import ROOT, User, sweep_content
from played_kubelet import PlayedKubelet
from played_operator import PlayedOperator


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
