"""An S3 server as a process of its own on 127.0.0.1: moto's, which keeps conditional writes and multipart uploads."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

BUCKET = "sweeps"
# S3 decides on If-None-Match and writes in one step; moto looks, and then writes: of two threads both may find nothing.
_SERVER = """
import logging, sys, threading
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
one_at_a_time, put = threading.RLock(), S3Response._key_response_put
def put_in_one_step(*arguments, **named):
    with one_at_a_time:
        return put(*arguments, **named)
S3Response._key_response_put = put_in_one_step
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()  # until the tests close it, or are gone
server.stop()
"""


@contextmanager
def s3_server() -> Iterator[str]:
    """Run the server with one empty bucket; this process and its children find it by their environment."""
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        endpoint = server.stdout.readline().strip()
        assert endpoint, f"the S3 server ended with {server.wait()}"
        named = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with mock.patch.dict(os.environ, named):
            import s3fs

            s3fs.S3FileSystem(skip_instance_cache=True).mkdir(BUCKET)
            yield endpoint
    finally:
        server.stdin.close()
        server.wait(timeout=30)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
