"""What only object stores have: large uploads, servers that fail or do not keep conditions, copies made by others."""

import hashlib
import secrets
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import s3fs

from results.object_store import ObjectStore
from results.store import LockedError, open_existing_store, open_store
from search_spaces.problems import InputError


@pytest.fixture
def uri(s3_bucket):
    return f"{s3_bucket}/{secrets.token_hex(6)}"


LARGE = """
import hashlib, resource, sys
from pathlib import Path
from results.store import open_store
store = open_store(sys.argv[1])
store.put_folder("warm", lambda folder: (folder / "file").write_bytes(b"x" * 20_000_000))
with store.get_folder("warm"):
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
block = bytes(range(256)) * 4096
def fill(folder):
    with (folder / "weights").open("wb") as file:
        for _ in range(160):
            file.write(block)
store.put_folder("checkpoint", fill)
digest = hashlib.sha256()
with store.get_folder("checkpoint") as folder, (folder / "weights").open("rb") as file:
    while data := file.read(1 << 20):
        digest.update(data)
print(digest.hexdigest(), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_a_large_file_goes_up_and_comes_down_in_parts_without_being_held_in_memory(uri):
    done = subprocess.run([sys.executable, "-c", LARGE, uri], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digest, grown_mib = done.stdout.split()
    assert digest == hashlib.sha256(bytes(range(256)) * 4096 * 160).hexdigest()
    assert int(grown_mib) < 100, "of a file of 160 MiB"
    [stored] = [
        info for info in s3fs.S3FileSystem().find(uri, detail=True).values() if info["name"].endswith("weights")
    ]
    assert "-" in stored["ETag"], "no multipart upload"


def test_a_folder_that_was_copied_here_by_other_means_is_read_and_kept(uri):
    """`aws s3 sync` of a local sweep folder writes plain objects."""
    files = s3fs.S3FileSystem()
    files.pipe_file(f"{uri}/trials/1/checkpoint/model/weights", b"12")
    store = open_existing_store(uri)
    with store.get_folder("trials/1/checkpoint") as folder:
        assert (folder / "model" / "weights").read_bytes() == b"12"
    store.put_folder("trials/1/checkpoint", lambda folder: pytest.fail("an existing folder is filled again"))


def test_looking_at_an_absent_prefix_makes_nothing(uri, s3_bucket):
    assert open_existing_store(uri) is None
    assert s3fs.S3FileSystem().find(uri) == []


@pytest.mark.parametrize("place", ["s3://no-such-bucket/sweep", "{unreachable}"])
def test_a_place_that_cannot_be_written_is_one_clear_message(place, uri, monkeypatch):
    if place == "{unreachable}":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        place = "s3://sweeps/sweep"
        s3fs.S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(InputError, match=r"s3://.*: storage: this sweep folder cannot be written \(.+\)"):
            open_store(place)
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


NO_PACKAGE = """
import sys
sys.modules["s3fs"] = None
from results.store import open_store
from search_spaces.problems import InputError
try:
    open_store(sys.argv[1])
except InputError as error:
    print(error)
"""


def test_a_missing_package_is_named_with_what_installs_it(uri):
    done = subprocess.run([sys.executable, "-c", NO_PACKAGE, uri], capture_output=True, text=True, check=True)
    assert "need the package s3fs: pip install 'densesweep[s3]'" in done.stdout


class _Careless(BaseHTTPRequestHandler):
    """An S3 server that takes every write, whatever its condition."""

    protocol_version = "HTTP/1.1"  # clients wait for its '100 Continue'

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def test_a_server_that_ignores_conditions_is_refused(monkeypatch, s3_bucket):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(InputError, match="ignores If-None-Match"):
            open_store("s3://sweeps/careless")
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.shutdown()


class _Forgetful(ObjectStore):
    """Its first conditional write is done, but the answer is lost and the repetition refused."""

    lost = 0

    def put_if_absent(self, key, data, *, reserved=False):
        won = super().put_if_absent(key, data, reserved=reserved)
        type(self).lost += 1
        return won and type(self).lost > 1


def test_a_lost_answer_costs_neither_the_lock_nor_the_folder(uri):
    place = uri.removeprefix("s3://")
    _Forgetful.lost = 0
    lock = _Forgetful("s3", place).lock("sweep", owner="me", stale_after_s=60)
    with pytest.raises(LockedError, match="me holds it"):
        open_store(uri).lock("sweep", owner="you", stale_after_s=60)
    lock.release()
    _Forgetful.lost = 0
    store = _Forgetful("s3", place)
    store.put_folder("checkpoint", lambda folder: (folder / "file").write_bytes(b"1"))
    assert store.list("checkpoint") == ["checkpoint/file"]
    assert store.leftovers() == ()


def test_two_writers_of_one_folder_leave_one_whole_folder(uri):
    first, second = open_store(uri), open_store(uri)

    def fill_while_another_publishes(folder):
        second.put_folder("checkpoint", lambda other: (other / "second").write_bytes(b"2"))
        (folder / "first").write_bytes(b"1")

    first.put_folder("checkpoint", fill_while_another_publishes)
    assert first.list("") == ["checkpoint/second"]
    assert first.leftovers() == ()


def test_sweeps_side_by_side_do_not_see_each_other(uri):
    """One prefix is the beginning of the other, and one lies in a folder of the other's parent."""
    stores = [open_store(place) for place in (uri, f"{uri}2", f"{uri}-more/sweep")]
    locks = [store.lock("sweep", owner=store.uri, stale_after_s=60) for store in stores]
    for store in stores:
        store.write("trials/1/status.json", store.uri.encode())
        store.put_folder("trials/1/checkpoint", lambda folder: (folder / "weights").write_bytes(b"1"))
    stores[0].delete("trials")
    for store, lock in zip(stores, locks, strict=True):
        lock.verify()
        lock.release()
        assert len(store.list("lock")) == 1
    assert stores[0].list("trials") == []
    for store in stores[1:]:
        assert store.list("trials") == ["trials/1/checkpoint/weights", "trials/1/status.json"]
        assert store.read("trials/1/status.json").decode() == store.uri
