"""Conformance of every store, its bytes and folders: real folders, real second processes, real kills."""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import line_of, python

from results.store import Leftover, open_existing_store, open_store
from search_spaces.problems import InputError


@pytest.fixture(params=["local", "s3", pytest.param("gs", marks=pytest.mark.slow)])
def uri(request, tmp_path):
    """The URI of an empty store; another implementation adds its name here."""
    if request.param != "local":
        return f"{request.getfixturevalue(f'{request.param}_bucket')}/{tmp_path.name}-{secrets.token_hex(4)}"
    return str(tmp_path / "sweep")


@pytest.fixture
def store(uri):
    return open_store(uri)


def test_what_is_written_is_read(store):
    store.write("a/b.bin", b"\x00one")
    store.write("a/b.bin", b"two")
    assert store.read("a/b.bin") == b"two"
    assert store.exists("a/b.bin")
    assert not store.exists("a")
    for absent in ("a", "a/c", "a/b.bin/c"):
        with pytest.raises(KeyError):
            store.read(absent)


def test_another_process_reads_it(store):
    store.write("a", b"seen")
    reader = python(
        "import sys; from results.store import open_store; print(open_store(sys.argv[1]).read('a'))", store.uri
    )
    assert line_of(reader) == "b'seen'"


def test_a_folder_of_a_published_folder_is_seen_as_any_other(store):
    def fill(folder: Path) -> None:
        for name in ("a/1", "a/b/2", "3"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(name.encode())

    store.put_folder("x/deep/checkpoint", fill)
    assert store.list("x") == ["x/deep/checkpoint/3", "x/deep/checkpoint/a/1", "x/deep/checkpoint/a/b/2"]
    assert store.list("x/deep/checkpoint/a") == ["x/deep/checkpoint/a/1", "x/deep/checkpoint/a/b/2"]
    assert store.read("x/deep/checkpoint/a/b/2") == b"a/b/2"
    assert store.exists("x/deep/checkpoint/3")
    assert not store.exists("x/deep/checkpoint/4")
    assert not store.exists("x/deep/checkpoint")
    assert store.sizes("x/deep/checkpoint/a") == {"x/deep/checkpoint/a/1": 3, "x/deep/checkpoint/a/b/2": 5}
    store.delete("x/deep")
    assert store.list("") == []
    assert not store.exists("x/deep/checkpoint/3")
    store.put_folder("x/deep/checkpoint", lambda folder: (folder / "new").write_bytes(b""))
    assert store.list("") == ["x/deep/checkpoint/new"]


def test_keys_are_listed_sorted_and_deleted(store):
    for key in ("x/2", "x/10", "x/y/z", "xy"):
        store.write(key, b"")
    assert store.list("x") == ["x/10", "x/2", "x/y/z"]
    assert store.list("nothing") == []
    store.delete("x/y")
    store.delete("x/2")
    store.delete("absent")
    assert store.list("") == ["x/10", "xy"]


@pytest.mark.parametrize("key", ["", ".", "/etc/passwd", "../out", "a/../../out", ".partial-x"])
def test_keys_cannot_leave_the_folder(store, key):
    with pytest.raises(ValueError, match="is not a key"):
        store.write(key, b"")


def test_put_if_absent_keeps_the_first(store):
    assert store.put_if_absent("a", b"first")
    assert not store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"
    assert store.list("") == ["a"]


RACE = """
import sys
from results.store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(sum(store.put_if_absent(f"race/{i}", sys.argv[2].encode()) for i in range(50)), flush=True)
"""


def test_of_racing_writers_exactly_one_wins_each_key(store):
    command = [sys.executable, "-c", RACE, store.uri]
    racers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate()[0]) for racer in racers]
    assert sum(won) == 50
    owners = [store.read(key).decode() for key in store.list("race")]
    assert [owners.count("a"), owners.count("b")] == won


def test_a_folder_is_published_whole_and_once(store):
    def fill(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_bytes(b"1")

    store.put_folder("checkpoint", fill)
    store.put_folder("checkpoint", lambda folder: pytest.fail("an existing folder is filled again"))
    with store.get_folder("checkpoint") as folder:
        assert (folder / "sub" / "file").read_bytes() == b"1"
    with pytest.raises(KeyError), store.get_folder("absent"):
        pass


def test_a_folder_whose_filling_fails_is_not_there(store):
    def fill(folder: Path) -> None:
        (folder / "file").write_bytes(b"1")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        store.put_folder("checkpoint", fill)
    assert store.list("") == []


KILLED = """
import sys, time
from pathlib import Path
from results.store import open_store
def fill(folder):
    (folder / "half").write_bytes(b"1")
    print("half", flush=True)
    time.sleep(60)
open_store(sys.argv[1]).put_folder("checkpoint", fill)
"""


def test_a_writer_killed_half_way_leaves_nothing_and_hinders_nobody(store):
    writer = python(KILLED, store.uri)
    assert line_of(writer) == "half"
    writer.kill()
    writer.wait()
    assert store.list("") == []
    store.put_folder("checkpoint", lambda folder: (folder / "whole").write_bytes(b"2"))
    assert store.list("") == ["checkpoint/whole"]


WRITER = """
import sys
from results.store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
n = 0
while True:
    n += 1
    store.write("big", bytes([n % 251]) * 4_000_000)
    store.put_folder(f"folders/{n}", lambda folder: [(folder / s).write_bytes(b"1" * 100_000) for s in "abc"])
"""


@pytest.mark.parametrize("delay_s", [0.02, 0.05, 0.11, 0.17])
def test_a_writer_killed_at_any_moment_leaves_keys_absent_or_whole(store, delay_s):
    writer = python(WRITER, store.uri)
    assert line_of(writer) == "ready"
    with pytest.raises(subprocess.TimeoutExpired):  # it writes without end until it is killed
        writer.wait(timeout=delay_s)
    writer.kill()
    writer.wait()
    if store.exists("big"):
        data = store.read("big")
        assert (len(data), len(set(data))) == (4_000_000, 1)
    for folder in {key.rpartition("/")[0] for key in store.list("folders")}:
        assert {len(store.read(f"{folder}/{name}")) for name in "abc"} == {100_000}
        assert len(store.list(folder)) == 3


CHURN = """
import sys
from results.store import open_store
store = open_store(sys.argv[1])
def fill(folder):
    for i in range(6):
        (folder / str(i) / "deep").mkdir(parents=True)
print("ready", flush=True)
n = 0
while True:
    n += 1
    store.put_folder(f"steps/{n}", fill)
    store.delete(f"steps/{n}")
"""


def test_a_store_opens_while_another_process_publishes_and_deletes(store):
    churn = python(CHURN, store.uri)
    assert line_of(churn) == "ready"
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        open_store(store.uri)
    assert churn.poll() is None
    churn.kill()
    churn.wait()


FULL = """
import resource, signal, sys
from results.store import open_store
store = open_store(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.write("a", b"x" * 9000)
except OSError:
    print("refused", flush=True)
"""


def test_a_write_that_does_not_fit_leaves_the_old_bytes_and_no_leftover(tmp_path):
    store = open_store(str(tmp_path / "sweep"))
    store.write("a", b"old")
    assert line_of(python(FULL, store.uri)) == "refused"
    assert store.read("a") == b"old"
    assert [path.name for path in Path(store.uri).iterdir()] == ["a"]


CUT_OFF = """
import sys, time
from results.store import open_store
store = open_store(sys.argv[1])
def stop(*_):
    print("uploaded", flush=True)
    time.sleep(60)
store._point = stop
def fill(folder):
    (folder / "half").write_bytes(b"12345")
    if "://" not in sys.argv[1]:
        stop()
store.put_folder("a/checkpoint", fill)
"""


def test_versions_tell_what_was_written_anew(store):
    store.write("a/b/1", b"one")
    store.write("a/b/2", b"two")
    store.put_folder("a/whole", lambda folder: (folder / "file").write_bytes(b"1"))
    first = store.versions("a")
    assert set(first) == {"a/b/1", "a/b/2", "a/whole/file"}
    assert store.versions("a") == first
    assert store.versions("a/b") == {key: first[key] for key in ("a/b/1", "a/b/2")}
    store.write("a/b/2", b"owt")  # as long as it was
    second = store.versions("a")
    assert {key for key in first if second[key] != first[key]} == {"a/b/2"}
    store.delete("a/b/1")
    store.delete("a/whole")
    store.put_folder("a/whole", lambda folder: (folder / "file").write_bytes(b"2"))
    third = store.versions("a")
    assert set(third) == {"a/b/2", "a/whole/file"}
    assert third["a/whole/file"] != second["a/whole/file"]
    assert store.versions("nothing") == {}


def test_what_a_killed_writer_left_is_told_and_can_be_removed(store):
    """The writer dies when all files are there, but nothing that says so."""
    writer = python(CUT_OFF, store.uri)
    assert line_of(writer) == "uploaded"
    store.write("a/other", b"1")
    store.put_folder("a/whole", lambda folder: (folder / "file").write_bytes(b"1"))
    writer.kill()
    writer.wait()
    [left] = store.leftovers()
    assert left.num_bytes == 5
    assert abs(time.time() - left.written_at) < 3600
    assert store.list("a") == ["a/other", "a/whole/file"]
    store.remove_leftover(left)
    store.remove_leftover(left)
    assert store.leftovers() == ()
    assert store.sizes("a") == {"a/other": 1, "a/whole/file": 1}
    with pytest.raises(ValueError, match="is no leftover"):
        store.remove_leftover(Leftover(name="a/other", num_bytes=1, written_at=0))


def test_leftovers_of_killed_writers_go_when_they_are_old(tmp_path):
    store = open_store(str(tmp_path / "sweep"))
    left = Path(store.uri) / "a" / ".partial-left"
    left.mkdir(parents=True)
    open_store(store.uri)
    assert left.exists()  # its writer may be alive
    os.utime(left, (0, 0))
    open_store(store.uri)
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_one_clear_message(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="this sweep folder cannot be written"):
        open_store(str(tmp_path / "sweep"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no new folders")
def test_a_place_that_takes_no_folder_is_one_clear_message():
    with pytest.raises(InputError, match="/proc/sweep: storage: this sweep folder cannot be written"):
        open_store("/proc/sweep")


def test_a_file_in_place_of_the_folder_is_one_clear_message(tmp_path):
    (tmp_path / "file").write_text("")
    for uri in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"storage: this sweep folder cannot be written \((File exists|Not a dir)"):
            open_store(str(uri))


def test_a_file_uri_is_unquoted(tmp_path):
    (tmp_path / "my sweep").mkdir()
    assert open_store((tmp_path / "my sweep").as_uri()).uri == str(tmp_path / "my sweep")


@pytest.mark.parametrize("uri", ["ftp://host/sweep", "s3:///sweep", "S3://bucket"])
def test_what_is_no_storage_is_one_clear_message(uri):
    with pytest.raises(InputError, match=r"storage: .* (are not kept on|names no bucket)"):
        open_store(uri)
    with pytest.raises(InputError, match="storage"):
        open_existing_store(uri)


def test_looking_makes_nothing(tmp_path):
    assert open_existing_store(str(tmp_path / "absent")) is None
    assert list(tmp_path.iterdir()) == []
