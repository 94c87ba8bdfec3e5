"""Writes that wait for space: a disk that is really full, and the sweep's own quota."""

import errno
import subprocess
import sys

import pytest
from small_disk import fill, relieve, small_disk

from results.room import OutOfSpaceError, QuotaError, Room, is_out_of_space
from results.store import open_store
from results.usage import checkpoint_bytes, usage
from results.waiting_store import WaitingStore

MIB = 2**20

WRITER = """
import sys
import numpy as np
from safetensors.numpy import save_file
from results.room import Room
from results.store import open_store
from results.waiting_store import WaitingStore
store = WaitingStore(open_store(sys.argv[1]), Room(wait_s=600.0), lambda text: print(text, flush=True))
if sys.argv[2] == "key":
    store.write("big", b"1" * 2_000_000)
else:
    store.put_folder("folder", lambda folder: save_file({"a": np.ones(500_000, np.float32)}, folder / "a.safetensors"))
print("written", flush=True)
"""


@pytest.mark.parametrize("what", ["key", "folder"])
def test_a_writer_on_a_full_disk_waits_and_goes_on_when_there_is_space(what, tmp_path):
    """Of a folder, safetensors says that the disk is full, by an error of its own."""
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        store = open_store(str(disk / "sweep"))
        store.write("old", b"kept")
        fill(disk)
        command = [sys.executable, "-c", WRITER, store.uri, what]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = writer.stdout.readline()
        assert said.startswith("waiting for space: "), said + writer.stderr.read()
        assert "No space left on device" in said
        assert [key for key in store.list("") if key != "old"] == []
        relieve(disk)
        out, err = writer.communicate(timeout=120)
        assert out.splitlines()[-2:] == ["going on: there is space again", "written"], err
        assert store.leftovers() == ()
        assert sum(store.sizes("").values()) > 2_000_000


def test_a_full_disk_can_be_opened_and_read(tmp_path):
    with small_disk(tmp_path / "disk", MIB) as disk:
        open_store(str(disk / "sweep")).write("old", b"kept")
        fill(disk)
        store = open_store(str(disk / "sweep"))
        assert store.read("old") == b"kept"
        with pytest.raises(OSError, match="No space left") as raised:
            store.write("new", b"x" * 100_000)
        assert is_out_of_space(raised.value)
        assert store.leftovers() == ()


def _waiting(tmp_path, said, **room):
    return WaitingStore(open_store(str(tmp_path / "sweep")), Room(**room), said.append)


def _folder_of(num_bytes):
    return lambda folder: (folder / "weights").write_bytes(b"1" * num_bytes)


def test_what_exceeds_the_quota_waits_until_something_goes(tmp_path):
    said = []

    def say(text):
        said.append(text)
        if text.startswith("waiting"):
            store.delete("trials/a/steps")

    store = WaitingStore(open_store(str(tmp_path / "sweep")), Room(quota_bytes=100, wait_s=600.0), say)
    store.put_folder("trials/a/steps/1", _folder_of(60))
    store.write("evaluations/x/per_query.parquet", b"1" * 1000)  # rows are no checkpoints
    store.put_folder("trials/b/checkpoint", _folder_of(50))
    assert said == [
        "waiting for space: checkpoints take 60 B, 50 B more would exceed checkpoints.quota of 100 B",
        "going on: there is space again",
    ]
    assert store.list("trials") == ["trials/b/checkpoint/weights"]
    assert store.leftovers() == ()


def test_a_checkpoint_larger_than_the_quota_ends_the_wait_with_the_reason(tmp_path):
    said = []
    store = _waiting(tmp_path, said, quota_bytes=100, wait_s=0.0)
    filled = []

    def fill_once(folder):
        filled.append(1)
        _folder_of(101)(folder)

    with pytest.raises(OutOfSpaceError, match=r"no space and none is waited for \(checkpoints take 0 B, 101 B more"):
        store.put_folder("trials/a/checkpoint", fill_once)
    assert filled == [1]
    assert store.list("") == []


def test_other_errors_pass_at_once(tmp_path):
    said = []
    store = _waiting(tmp_path, said, wait_s=600.0)
    with pytest.raises(PermissionError):
        store.put_folder("a", lambda folder: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
    assert said == []


def test_the_waiting_store_gives_what_the_other_has(tmp_path):
    store = _waiting(tmp_path, [])
    assert store.put_if_absent("a", b"1")
    assert not store.put_if_absent("a", b"2")
    store.put_folder("trials/t/checkpoint", _folder_of(7))
    store.put_folder("trials/t/steps/00000001", _folder_of(5))
    store.put_folder("trials/t/last_checkpoint", _folder_of(3))
    store.write("encodings/e/embeddings/000.parquet", b"12")
    assert store.read("a") == b"1"
    assert store.exists("a")
    assert checkpoint_bytes(store) == 15
    assert usage(store) == {
        "final checkpoints": 7,
        "checkpoints to resume from": 5,
        "last checkpoints": 3,
        "kept embeddings": 2,
        "rows and records": 1,
    }
    lock = store.lock("sweep", owner="me", stale_after_s=60)
    lock.release()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (QuotaError(used=1, needed=1, quota=1), True),
        (RuntimeError("I/O error: No space left on device (os error 28)"), True),
        (RuntimeError("database or disk is full"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("space"), False),
    ],
)
def test_what_counts_as_want_of_space(error, expected):
    assert is_out_of_space(error) is expected
    wrapped = ValueError("something else")
    wrapped.__cause__ = error
    assert is_out_of_space(wrapped) is expected
