"""Real Ray nodes on loopback addresses, each with a temporary folder of its own, ended by their pids alone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

READY = "Ray runtime started"
DEADLINE_S = 240.0
TRIES = 3
# Ray makes a token for a cluster of one's own; these here are joined by a process that must not need one.
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_DEDUP_LOGS": "0"}
# Ray gives up on processes that take longer to start, which they do on machines that have much to do.
PATIENCE = {
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "240",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "240",
    "RAY_worker_niceness": "0",  # Ray's own 15 stands still beside whatever else this machine does
}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node: the process that started it, and its folder."""

    process: subprocess.Popen
    folder: Path

    def kill(self) -> None:
        """kill -9 all its processes, as a machine that loses power does."""
        if self.process.poll() is None:
            doomed = psutil.Process(self.process.pid).children(recursive=True)
            os.kill(self.process.pid, signal.SIGKILL)
            for process in doomed:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(kw_only=True)
class RayCluster:
    """A head that has no CPUs, and nodes that have some; `url` is where it takes jobs, if it does."""

    address: str
    head: Node
    nodes: list[Node]
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def add(self, ip: str, *, num_cpus: int) -> Node:
        """Start one more node, and wait until it has joined."""
        node = _start(self.environment, ip, f"--address={self.address}", f"--num-cpus={num_cpus}")
        self.nodes.append(node)
        return node


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head on 127.0.0.2; every node that was added is ended with it."""
    with _cluster({}, "--include-dashboard=false") as cluster:
        yield cluster


@contextmanager
def jobs_cluster(token: str) -> Iterator[RayCluster]:
    """One that takes jobs from whoever has the token."""
    port = _free_port("127.0.0.2")
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    dashboard = ("--include-dashboard=true", "--dashboard-host=127.0.0.2", f"--dashboard-port={port}")
    with _cluster(environment, *dashboard) as cluster:
        cluster.url = f"http://127.0.0.2:{port}"
        yield cluster


@contextmanager
def _cluster(environment: Mapping[str, str], *dashboard: str) -> Iterator[RayCluster]:
    address = f"127.0.0.2:{_free_port('127.0.0.2')}"
    port = address.rpartition(":")[2]
    client = f"--ray-client-server-port={_free_port('127.0.0.2')}"
    head = _start(environment, "127.0.0.2", "--head", f"--port={port}", client, "--num-cpus=0", *dashboard)
    cluster = RayCluster(address=address, head=head, nodes=[], environment=environment)
    try:
        yield cluster
    finally:
        for node in [*cluster.nodes, head]:
            node.kill()


def _start(environment: Mapping[str, str], ip: str, *arguments: str) -> Node:
    """Start a node; tried again, since Ray gives its raylet 30 s to begin, and no more where there is much to do."""
    for attempt in range(1, TRIES + 1):
        try:
            return _started(environment, ip, *arguments)
        except AssertionError:
            if attempt == TRIES:
                raise
    raise AssertionError("unreachable")


def _started(environment: Mapping[str, str], ip: str, *arguments: str) -> Node:
    folder = Path(tempfile.mkdtemp(prefix="ds-", dir="/tmp"))  # Ray's sockets lie in it: their paths must be short
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={ip}", *arguments]
    command += [f"--temp-dir={folder}", "--object-store-memory=80000000", "--disable-usage-stats"]
    # The agent listens at its port of 127.0.0.1 too, which is the same for all nodes of this machine.
    command += [f"--dashboard-agent-listen-port={_free_port('127.0.0.1')}"]
    log = folder / "start.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT, **PATIENCE, **_paths(), **environment},
        )
    node = Node(process=process, folder=folder)
    until = time.monotonic() + DEADLINE_S
    while READY not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            text = log.read_text(errors="replace")
            node.kill()
            raise AssertionError(f"a Ray node did not start: {text[-2000:]}")
        time.sleep(0.1)
    return node


def _paths() -> dict[str, str]:
    """Where a job's `densesweep` is found, and what it imports."""
    python = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(python),
    }


def _free_port(ip: str) -> int:
    with socket.socket() as free:
        free.bind((ip, 0))
        return free.getsockname()[1]
