"""Conformance of every store, its locks: real second processes that hold them, die, and come back."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time

import pytest
from processes import line_of, python

from results.locks import verify_token
from results.store import LockedError, LostLockError, open_store


@pytest.fixture(params=["local", "s3", pytest.param("gs", marks=pytest.mark.slow)])
def uri(request, tmp_path):
    """The URI of an empty store; another implementation adds its name here."""
    if request.param != "local":
        return f"{request.getfixturevalue(f'{request.param}_bucket')}/{tmp_path.name}-{secrets.token_hex(4)}"
    return str(tmp_path / "sweep")


@pytest.fixture
def store(uri):
    return open_store(uri)


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
    return line_of(holder)


def test_a_live_owner_is_named_at_once(store):
    holder = _holder(store.uri, 60)
    assert line_of(holder) == "1"
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
    assert [line_of(racer) for racer in racers.values()] == ["ready", "ready"]
    for racer in racers.values():
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = {name: line_of(racer) for name, racer in racers.items()}
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
    assert line_of(python(CHECK, store.uri, str(first.token))) == "held"
    first.release()
    assert line_of(python(CHECK, store.uri, str(first.token))) == "lost"
    second = store.lock("sweep", owner="me", stale_after_s=60)
    with pytest.raises(LostLockError, match="token 1 holds it no more"):
        verify_token(store, "sweep", first.token)
    verify_token(store, "sweep", second.token)
    second.release()


def test_a_killed_owner_is_passed_over_at_once(store):
    holder = _holder(store.uri, 60)
    assert line_of(holder) == "1"
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
    assert line_of(holder) == "1"
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
    assert line_of(first) == "held"
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
    assert line_of(first) == "given back"
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
