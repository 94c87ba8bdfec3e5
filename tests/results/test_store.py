"""Conformance of every store: real folders, real second processes, real kills."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.locks import verify_token
from results.store import Leftover, LockedError, LostLockError, open_existing_store, open_store
from search_spaces.problems import InputError


@pytest.fixture(params=["local", "s3"])
def uri(request, tmp_path):
    """The URI of an empty store; another implementation adds its name here."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3_bucket')}/{tmp_path.name}-{secrets.token_hex(4)}"
    return str(tmp_path / "sweep")


@pytest.fixture
def store(uri):
    return open_store(uri)


def _python(code: str, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen) -> str:
    """The next line a process prints; waits for it, and fails with what it said where it ended instead."""
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


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
    reader = _python(
        "import sys; from results.store import open_store; print(open_store(sys.argv[1]).read('a'))", store.uri
    )
    assert _line(reader) == "b'seen'"


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
    writer = _python(KILLED, store.uri)
    assert _line(writer) == "half"
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
    writer = _python(WRITER, store.uri)
    assert _line(writer) == "ready"
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
    churn = _python(CHURN, store.uri)
    assert _line(churn) == "ready"
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
    assert _line(_python(FULL, store.uri)) == "refused"
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
    writer = _python(CUT_OFF, store.uri)
    assert _line(writer) == "uploaded"
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


HOLDER = """
import sys
from results.store import open_store, LostLockError
store = open_store(sys.argv[1])
lock = store.lock("sweep", owner=sys.argv[2], stale_after_s=float(sys.argv[3]))
print(lock.token, flush=True)
for line in sys.stdin:
    try:
        lock.verify()
        print("held", flush=True)
    except LostLockError as error:
        print(f"lost: {error}", flush=True)
"""


def _holder(uri: str, stale_after_s: float) -> subprocess.Popen:
    command = [sys.executable, "-c", HOLDER, uri, "holder", str(stale_after_s)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _ask(holder: subprocess.Popen) -> str:
    holder.stdin.write("?\n")
    holder.stdin.flush()
    return _line(holder)


def test_a_live_owner_is_named_at_once(store):
    holder = _holder(store.uri, 60)
    assert _line(holder) == "1"
    began = time.monotonic()
    with pytest.raises(LockedError, match="holder holds it"):
        store.lock("sweep", owner="me", stale_after_s=60)
    assert time.monotonic() - began < 30  # not the 60 s after which it would be stale
    assert _ask(holder) == "held"
    holder.kill()
    holder.wait()


LOCK_RACER = """
import sys
from results.store import Leftover, LockedError, open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    store.lock("sweep", owner=sys.argv[2], stale_after_s=60)
    print("won", flush=True)
except LockedError as error:
    print(error, flush=True)
sys.stdin.readline()  # the winner lives until both have spoken
"""


def test_of_two_racing_for_the_lock_one_wins_and_the_other_is_told_who(store):
    command = [sys.executable, "-c", LOCK_RACER, store.uri]
    racers = {
        name: subprocess.Popen(
            [*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("anna", "bert")
    }
    assert [_line(racer) for racer in racers.values()] == ["ready", "ready"]
    for racer in racers.values():
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = {name: _line(racer) for name, racer in racers.items()}
    for racer in racers.values():
        racer.communicate("end\n")
    [winner] = [name for name, words in said.items() if words == "won"]
    [refused] = [words for words in said.values() if words != "won"]
    assert winner in refused


CHECK = """
import sys
from results.locks import verify_token
from results.store import LostLockError, open_store
try:
    verify_token(open_store(sys.argv[1]), "sweep", int(sys.argv[2]))
    print("held", flush=True)
except LostLockError:
    print("lost", flush=True)
"""


def test_a_worker_checks_the_token_without_owning_the_lock(store):
    first = store.lock("sweep", owner="me", stale_after_s=60)
    assert _line(_python(CHECK, store.uri, str(first.token))) == "held"
    first.release()
    assert _line(_python(CHECK, store.uri, str(first.token))) == "lost"
    second = store.lock("sweep", owner="me", stale_after_s=60)
    with pytest.raises(LostLockError, match="token 1 holds it no more"):
        verify_token(store, "sweep", first.token)
    verify_token(store, "sweep", second.token)
    second.release()


def test_a_killed_owner_is_passed_over_at_once(store):
    holder = _holder(store.uri, 60)
    assert _line(holder) == "1"
    holder.kill()
    holder.wait()
    began = time.monotonic()
    lock = store.lock("sweep", owner="me", stale_after_s=60)
    assert time.monotonic() - began < 30
    assert lock.token == 2
    lock.verify()
    lock.release()


def _as_if_elsewhere(store) -> None:
    """Make the lock's record one of another machine, whose processes cannot be looked up."""
    [key] = store.list("lock/sweep")
    record = json.loads(store.read(key))
    store.write(key, json.dumps({**record, "host": "elsewhere/0"}).encode())


def test_an_owner_elsewhere_whose_heart_stands_still_is_taken_over_and_finds_out(store):
    holder = _holder(store.uri, 1.0)
    assert _line(holder) == "1"
    os.kill(holder.pid, signal.SIGSTOP)
    _as_if_elsewhere(store)
    lock = store.lock("sweep", owner="me", stale_after_s=1.0)
    assert lock.token == 2
    os.kill(holder.pid, signal.SIGCONT)
    assert _ask(holder) == "lost: lock 'sweep': token 1 holds it no more (last taken: 2)"
    lock.verify()
    lock.release()
    holder.kill()
    holder.wait()


TAKEN = """
import sys
from results.store import open_store
store = open_store(sys.argv[1])
lock = store.lock("sweep", owner="first", stale_after_s=1.0)
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("given back", flush=True)
"""


@pytest.mark.parametrize("owners", [1, 3])
def test_a_lock_given_back_after_it_was_taken_over_leaves_the_new_owner_alone(store, owners):
    command = [sys.executable, "-c", TAKEN, store.uri]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert _line(first) == "held"
    os.kill(first.pid, signal.SIGSTOP)
    _as_if_elsewhere(store)
    for number in range(owners):  # with several, the first one's record is swept away
        lock = store.lock("sweep", owner=f"owner {number}", stale_after_s=1.0)
        if number + 1 < owners:
            lock.release()
    records = store.list("lock")
    os.kill(first.pid, signal.SIGCONT)
    first.stdin.write("release\n")
    first.stdin.flush()
    assert _line(first) == "given back"
    first.wait()
    lock.verify()
    assert store.list("lock") == records
    with pytest.raises(LockedError, match=f"owner {owners - 1} holds it"):
        store.lock("sweep", owner="late", stale_after_s=1.0)
    lock.release()


def test_an_owner_elsewhere_whose_heart_beats_keeps_the_lock(store):
    lock = store.lock("sweep", owner="far away", stale_after_s=1.0)
    lock._record = type(lock._record)(owner="far away", host="elsewhere/0", pid=1, started=0.0)
    _as_if_elsewhere(store)
    with pytest.raises(LockedError, match="far away holds it"):
        store.lock("sweep", owner="me", stale_after_s=3.0)
    lock.release()


def test_a_released_lock_is_free_and_old_records_go(store):
    for token in (1, 2, 3):
        lock = store.lock("sweep", owner="me", stale_after_s=60)
        assert lock.token == token
        lock.release()
        lock.release()
        with pytest.raises(LostLockError):
            lock.verify()
    assert store.list("lock") == ["lock/sweep/00000002.json", "lock/sweep/00000003.json"]
