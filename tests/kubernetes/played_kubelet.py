"""Plays one node with its kubelet in tests: pods are objects of the API server, and what runs in them are processes.

There are no containers: the image is this Python, volumes are folders, and each pod's Ray listens on a loopback address
of its own. The API server fetches logs from here, as it does from a kubelet.
"""

import http.server
import json
import os
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
from api_server import ApiServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROOT = Path(__file__).parents[2]
NODE = "played-node"
READY = "Ray runtime started"
_DEADLINE_S = 300.0
_AWAY_S = 60.0
_PODS = "/api/v1/namespaces/{}/pods"


@dataclass(kw_only=True)
class PlayedPod:
    """A pod: its address, what it runs, and the log of its first container."""

    namespace: str
    name: str
    template: dict[str, Any]
    address: str
    folder: Path
    config_maps: dict[str, Path] = field(default_factory=dict)
    process: subprocess.Popen | None = None
    gcs: str = ""
    dashboard: str = ""
    failure: str = ""
    has_ended: bool = False

    @property
    def container(self) -> dict[str, Any]:
        return self.template["spec"]["containers"][0]

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


class PlayedKubelet:
    """The node, from `start` to `stop`. `images` that are not to be had keep their pods from starting."""

    def __init__(self, server: ApiServer, *, variables: dict[str, str] | None = None) -> None:
        self.server = server
        self._folder = Path(tempfile.mkdtemp(prefix="ds-k-", dir="/tmp"))  # Ray's sockets: paths must be short
        self._variables = variables or {}
        self._num_addresses = 1
        self._pods: dict[tuple[str, str], PlayedPod] = {}
        self.missing_images: set[str] = set()
        self.is_interrupted = False  # who waits for a pod to start is not to
        self._logs = self._log_server()

    def start(self) -> "PlayedKubelet":
        (self._folder / "bin").mkdir()
        program = self._folder / "bin" / "densesweep"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m orchestrator.cli "$@"\n')
        program.chmod(0o755)
        threading.Thread(target=self._logs.serve_forever, name="played kubelet", daemon=True).start()
        self.server.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs.server_address[1]}},
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        }
        self.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, kind="application/merge-patch+json")
        return self

    def stop(self) -> None:
        for pod in list(self._pods.values()):
            self.end(pod)
        self._logs.shutdown()
        self._logs.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def request(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Ask the API server as the administrator, and again while it is away."""
        until = time.monotonic() + _AWAY_S
        while True:
            try:
                return self.server.request(*arguments, **options)
            except (OSError, json.JSONDecodeError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def pod(self, namespace: str, name: str, template: dict[str, Any], labels: dict[str, str]) -> PlayedPod:
        """Create a pod of a template; nothing runs in it yet."""
        self._num_addresses += 1
        folder = self._folder / f"p{self._num_addresses}"
        folder.mkdir()
        metadata = template.get("metadata", {})
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": name, "labels": {**metadata.get("labels", {}), **labels}},
            "spec": {**template["spec"], "nodeName": NODE},
        }
        made = self.request("POST", _PODS.format(namespace), manifest)
        assert made["kind"] == "Pod", made
        address = f"127.0.{self._num_addresses // 250 + 1}.{self._num_addresses % 250 + 2}"
        pod = PlayedPod(namespace=namespace, name=name, template=template, address=address, folder=folder)
        self._pods[namespace, name] = pod
        return pod

    def start_head(self, pod: PlayedPod, parameters: dict[str, str]) -> bool:
        """`ray start --head` with the rendered parameters; whether it runs."""
        port, dashboard = _free_port(pod.address), _free_port(pod.address)
        pod.gcs, pod.dashboard = f"{pod.address}:{port}", f"{pod.address}:{dashboard}"
        # Of the rendered parameters only where it listens is another one: this machine has loopback addresses alone.
        here = {"port": str(port), "dashboard-host": pod.address, "dashboard-port": str(dashboard)}
        return self._start_ray(pod, ["--head", "--include-dashboard=true"], {**parameters, **here})

    def start_worker(self, pod: PlayedPod, parameters: dict[str, str], head: PlayedPod) -> bool:
        """`ray start` with the rendered parameters; whether it runs."""
        return self._start_ray(pod, [f"--address={head.gcs}"], parameters)

    def seen_from(self, pod: PlayedPod, text: str) -> str:
        """A command line with the folders of this machine where it names mounted ConfigMaps."""
        for mounted, folder in pod.config_maps.items():
            text = text.replace(mounted, str(folder))
        return text

    def start_command(self, pod: PlayedPod, command: list[str]) -> None:
        """Start a command in a pod."""
        if self._is_prepared(pod):
            self._spawn(pod, command)
            self._set_running(pod)

    def notice_end(self, pod: PlayedPod) -> bool:
        """Whether what ran in a pod has ended; then its status says how."""
        if pod.runs or pod.process is None:
            return pod.has_ended
        if not pod.has_ended:
            pod.has_ended = True
            code = pod.process.returncode
            ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}
            phase = "Succeeded" if code == 0 else "Failed"
            self._set_status(pod, phase, {"terminated": {**ended, "finishedAt": _now()}}, ready=False)
        return True

    def end(self, pod: PlayedPod) -> None:
        """End what runs in a pod, with all that it started."""
        self._pods.pop((pod.namespace, pod.name), None)
        if pod.process is None:
            return
        doomed = []
        with suppress(psutil.NoSuchProcess):
            doomed = psutil.Process(pod.process.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(pod.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            pod.process.wait(timeout=5)
        self._kill(pod, doomed)

    def kill(self, pod: PlayedPod) -> None:
        """kill -9 all that runs in a pod, as a machine that loses power does."""
        assert pod.process is not None
        self._kill(pod, psutil.Process(pod.process.pid).children(recursive=True))

    def job(self, head: PlayedPod, job_id: str) -> dict[str, Any] | None:
        """What Ray says of a job; None where it does not know it, or the head is gone."""
        with (
            suppress(OSError, urllib.error.HTTPError),
            urllib.request.urlopen(f"http://{head.dashboard}/api/jobs/{job_id}", timeout=10) as answer,
        ):
            return json.loads(answer.read())
        return None

    def stop_job(self, head: PlayedPod, job_id: str) -> None:
        """Ask Ray to stop a job."""
        request = urllib.request.Request(f"http://{head.dashboard}/api/jobs/{job_id}/stop", method="POST")
        with suppress(OSError, urllib.error.HTTPError), urllib.request.urlopen(request, timeout=10):
            pass

    def _start_ray(self, pod: PlayedPod, arguments: list[str], parameters: dict[str, str]) -> bool:
        if not self._is_prepared(pod):
            return False
        # KubeRay puts parameters into a shell's command line as they are.
        flags = " ".join(f"--{name}={value}" for name, value in parameters.items())
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={pod.address}"]
        # By default the agent that takes jobs listens at the same port on every node: one of this machine's Rays may.
        command += [f"--dashboard-agent-listen-port={_free_port(pod.address)}"]
        command += [*arguments, f"--temp-dir={pod.folder}/r", "--disable-usage-stats"]
        self._spawn(pod, ["/bin/bash", "-c", f"exec {shlex.join(command)} {flags}"])
        until = time.monotonic() + _DEADLINE_S
        while READY not in pod.log.read_text(errors="replace"):
            if not pod.runs or time.monotonic() > until or self.is_interrupted:
                pod.failure = pod.log.read_text(errors="replace")[-2000:]
                self.notice_end(pod)
                return False
            time.sleep(0.1)
        self._set_running(pod)
        return True

    def _is_prepared(self, pod: PlayedPod) -> bool:
        """Pull the image, mount the ConfigMaps and run the init containers; whether the pod may start."""
        if pod.container["image"] in self.missing_images:
            pod.failure = "ImagePullBackOff"
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{pod.container["image"]}"'}
            self._set_status(pod, "Pending", {"waiting": waiting}, ready=False)
            return False
        self._mount(pod)
        for container in pod.template["spec"].get("initContainers", []):
            done = subprocess.run(
                container["command"],
                env=self._environment(pod, container),
                capture_output=True,
                text=True,
                cwd=pod.folder,
            )
            if done.returncode:
                pod.failure = done.stdout + done.stderr
                ended = {"exitCode": done.returncode, "reason": "Error", "message": pod.failure[-2000:]}
                init = [_status(container["name"], container["image"], {"terminated": ended}, ready=False)]
                self._set_status(pod, "Failed", {"waiting": {"reason": "PodInitializing"}}, ready=False, init=init)
                return False
        return True

    def _mount(self, pod: PlayedPod) -> None:
        """Write the ConfigMaps that the pod mounts into folders, once they are there: a pod waits for them."""
        mounts = {mount["name"]: mount["mountPath"] for mount in pod.container.get("volumeMounts", [])}
        for volume in pod.template["spec"].get("volumes", []):
            if "configMap" not in volume:
                continue
            path = f"/api/v1/namespaces/{pod.namespace}/configmaps/{volume['configMap']['name']}"
            until = time.monotonic() + _DEADLINE_S
            while "data" not in (found := self.request("GET", path)):
                if self.is_interrupted:
                    return
                assert time.monotonic() < until, found
                time.sleep(0.1)
            folder = self._folder / "config-maps" / pod.namespace / volume["configMap"]["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in found["data"].items():
                (folder / name).write_text(text)
            pod.config_maps[mounts[volume["name"]]] = folder

    def _environment(self, pod: PlayedPod, container: dict[str, Any]) -> dict[str, str]:
        """The container's variables, over those of this machine that programs need; `/scratch` is a folder here."""
        base = {name: os.environ[name] for name in ("LANG", "OMP_NUM_THREADS") if name in os.environ}
        own = {one["name"]: one["value"] for one in container.get("env", [])}
        here = {
            "PATH": os.pathsep.join([str(self._folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONUNBUFFERED": "1",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            "RAY_agent_register_timeout_ms": "300000",  # on a busy machine Ray's agents take long to start
            "RAY_raylet_start_wait_time_s": "300",
            "RAY_worker_niceness": "0",  # Ray's own 15 stands still beside whatever else this machine does
        }
        scratch = pod.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        variables = {name: value.replace("/scratch", str(scratch)) for name, value in own.items()}
        return {**base, **variables, **here, **self._variables}

    def _spawn(self, pod: PlayedPod, command: list[str]) -> None:
        with pod.log.open("wb") as out:
            pod.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=pod.folder,
                start_new_session=True,
                env=self._environment(pod, pod.container),
            )

    def _set_running(self, pod: PlayedPod) -> None:
        self._set_status(pod, "Running", {"running": {"startedAt": _now()}}, ready=True)

    def _set_status(
        self, pod: PlayedPod, phase: str, state: dict[str, Any], *, ready: bool, init: list[Any] | None = None
    ) -> None:
        status = {
            "phase": phase,
            "podIP": pod.address,
            "startTime": _now(),
            "containerStatuses": [_status(pod.container["name"], pod.container["image"], state, ready=ready)],
            "initContainerStatuses": init or [],
        }
        path = f"{_PODS.format(pod.namespace)}/{pod.name}/status"
        self.request("PATCH", path, {"status": status}, kind="application/merge-patch+json")

    def _kill(self, pod: PlayedPod, doomed: list[psutil.Process]) -> None:
        assert pod.process is not None
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with suppress(ProcessLookupError):
            pod.process.kill()
        pod.process.wait()

    def _log_server(self) -> http.server.ThreadingHTTPServer:
        """Answers `/containerLogs/NAMESPACE/POD/CONTAINER`, as a kubelet does."""
        kubelet = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                return

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                _, where, namespace, name, _ = [*path.split("/"), "", ""][:5]
                pod = kubelet._pods.get((namespace, name))
                if where != "containerLogs" or pod is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                with suppress(OSError), pod.log.open("rb") as log:
                    while True:
                        has_ended = not pod.runs
                        while chunk := log.read(1 << 16):
                            self.wfile.write(chunk)
                        self.wfile.flush()
                        if has_ended or "follow=true" not in query:
                            return
                        time.sleep(0.05)

        logs = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(self._folder))
        logs.socket = context.wrap_socket(logs.socket, server_side=True)
        return logs


def _status(name: str, image: str, state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    return {"name": name, "image": image, "imageID": image, "ready": ready, "restartCount": 0, "state": state}


def _certificate(folder: Path) -> Path:
    """A key and a certificate that it signed itself, in one file: nobody checks a kubelet's here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NODE)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "kubelet.pem"
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


def _free_port(address: str) -> int:
    with socket.socket() as free:
        free.bind((address, 0))
        return free.getsockname()[1]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
