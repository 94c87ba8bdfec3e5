"""A real kube-apiserver with etcd on 127.0.0.1: RBAC on, KubeRay's CRDs, tokens on demand; ended by pid."""

import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from build_api_server import BUILDING_TAKES, built
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SHARED = Path(__file__).parents[3] / "shared" / "kuberay"
DEADLINE_S = 300.0
_ADMIN_TOKEN = "the-administrator"
_READY = "/readyz"


@dataclass(kw_only=True)
class ApiServer:
    """An API server that can be stopped and started again over the same etcd, on the same port."""

    programs: Path
    folder: Path
    port: int
    etcd_port: int
    etcd: subprocess.Popen
    process: subprocess.Popen | None = field(default=None)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        options = {
            "etcd-servers": f"http://127.0.0.1:{self.etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self.port),
            "cert-dir": str(self.folder / "certificates"),  # it signs its own, once
            "token-auth-file": str(self.folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(self.folder / "service-accounts.pem"),
            "service-account-signing-key-file": str(self.folder / "service-accounts.pem"),
            "service-cluster-ip-range": "10.0.0.0/24",
            # No controller manager makes the default account of a namespace, which the plugin waits for.
            "disable-admission-plugins": "ServiceAccount",
        }
        with (self.folder / "kube-apiserver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.programs / "kube-apiserver"), *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _wait(self._is_ready, self.process, self.folder / "kube-apiserver.log")

    def stop(self) -> None:
        """End it as a machine that is rebooted does: watches break off."""
        if self.process is not None:
            _end(self.process)
            self.process = None

    def request(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """What the server answers, errors too: objects of the kind Status. Its own faults pass: it is asked again."""
        until = time.monotonic() + DEADLINE_S
        while (answer := self._request(*arguments, **options)).get("code", 0) >= 500 and time.monotonic() < until:
            time.sleep(0.2)
        return answer

    def _request(
        self, method: str, path: str, body: object = None, *, token: str = _ADMIN_TOKEN, kind: str = "application/json"
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self._trust(), timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            code = error.code
            text = error.read()
        try:
            return json.loads(text)
        except json.JSONDecodeError:  # as while a kind is not served yet
            return {"kind": "Status", "code": code, "message": text.decode(errors="replace")}

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object as the administrator."""
        made = self.request("POST", path, body)
        assert made.get("kind") != "Status", made
        return made

    def kubeconfig(self, file: Path, *, token: str = _ADMIN_TOKEN, namespace: str = "default") -> Path:
        """A file for clients who come with this token."""
        authority = base64.b64encode(self._authority().encode()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [
                {"name": "tests", "cluster": {"server": self.url, "certificate-authority-data": authority}},
            ],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [
                {"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": namespace}},
            ],
        }
        file.write_text(yaml.safe_dump(content))
        return file

    def token_of(self, account: str, namespace: str) -> str:
        """A token of a service account, as its pods would have."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return self.create(path, body)["status"]["token"]

    def add_namespace(self, name: str) -> str:
        self.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def _authority(self) -> str:
        return (self.folder / "certificates/apiserver.crt").read_text()

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._authority())

    def _is_ready(self) -> bool:
        if not (self.folder / "certificates/apiserver.crt").exists():
            return False
        request = urllib.request.Request(self.url + _READY, headers={"Authorization": f"Bearer {_ADMIN_TOKEN}"})
        with suppress(OSError), urllib.request.urlopen(request, context=self._trust(), timeout=5) as answer:
            return answer.read() == b"ok"
        return False


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """One that knows KubeRay's kinds; the test is skipped, with the reason, where it cannot be had."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/kuberay beside the repository")
    if (programs := built()) is None:
        pytest.skip(f"needs kube-apiserver, which is built once by 'make api-server': {BUILDING_TAKES}")
    memory = Path("/dev/shm")  # etcd waits for the disk at each write
    folder = Path(tempfile.mkdtemp(prefix="densesweep-api-server-", dir=memory if memory.is_dir() else None))
    etcd, etcd_port = _etcd(programs, folder)
    server = ApiServer(programs=programs, folder=folder, port=free_port(), etcd_port=etcd_port, etcd=etcd)
    try:
        (folder / "tokens.csv").write_text(f'{_ADMIN_TOKEN},administrator,administrator,"system:masters"\n')
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (folder / "service-accounts.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        server.start()
        _add_definitions(server)
        yield server
    finally:
        server.stop()
        _end(etcd)
        shutil.rmtree(folder, ignore_errors=True)


def definition(kind: str) -> dict[str, Any]:
    """KubeRay's CRD of `rayjobs` or `rayclusters` as 1.20 takes it: version v1, without what it would misread."""
    found = yaml.load((SHARED / f"ray.io_{kind}.yaml").read_text(), Loader=yaml.CSafeLoader)
    versions = [version for version in found["spec"]["versions"] if version["name"] == "v1"]
    for version in versions:
        for printed in version.get("additionalPrinterColumns", []):
            printed.setdefault("priority", 0)
        version["schema"]["openAPIV3Schema"] = for_1_20(version["schema"]["openAPIV3Schema"])
    found["spec"]["versions"] = versions
    found.pop("status", None)
    return found


def for_1_20(schema: Any) -> Any:
    """A schema without CEL rules, without defaults of an empty string (1.20 makes null of them), and without list maps
    whose keys then lack the default that they must have.
    """
    if isinstance(schema, list):
        return [for_1_20(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    taken = {name: for_1_20(part) for name, part in schema.items() if name != "x-kubernetes-validations"}
    if taken.get("default") == "" and "type" in taken:
        del taken["default"]
    keys = taken.get("x-kubernetes-list-map-keys")
    if keys and isinstance(taken.get("items"), dict):
        items = taken["items"]
        lacking = [
            key
            for key in keys
            if key not in items.get("required", []) and "default" not in items.get("properties", {}).get(key, {})
        ]
        if lacking:
            del taken["x-kubernetes-list-map-keys"]
            taken["x-kubernetes-list-type"] = "atomic"
    return taken


def _add_definitions(server: ApiServer) -> None:
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for kind in ("rayjobs", "rayclusters"):
        server.create(base, definition(kind))
    until = time.monotonic() + DEADLINE_S
    for kind in ("rayjobs", "rayclusters"):
        while "items" not in server.request("GET", f"/apis/ray.io/v1/namespaces/default/{kind}"):
            assert time.monotonic() < until, f"{kind} are not served"
            time.sleep(0.1)


def _etcd(programs: Path, folder: Path) -> tuple[subprocess.Popen, int]:
    port, peers = free_port(), free_port()
    options = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": f"http://127.0.0.1:{port}",
        "advertise-client-urls": f"http://127.0.0.1:{port}",
        "listen-peer-urls": f"http://127.0.0.1:{peers}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peers}",
        "initial-cluster": f"default=http://127.0.0.1:{peers}",
    }
    log = folder / "etcd.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "etcd"), *(f"--{name}={value}" for name, value in options.items())],
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"},  # elsewhere than on amd64 it asks to be told
        )

    def is_ready() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return b"true" in answer.read()
        return False

    _wait(is_ready, process, log)
    return process, port


def _wait(is_ready: Any, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            _end(process)
            raise AssertionError(f"{log.name}: {log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    with suppress(psutil.NoSuchProcess):
        process.kill()
    process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
