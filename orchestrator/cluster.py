"""The Ray cluster that a sweep runs on: one of its own on this machine, or one that runs already."""

import gc
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from orchestrator.addresses import answers
from orchestrator.requests import Node
from search_spaces.problems import InputError, Problem

_OBJECT_STORE_BYTES = 128 * 2**20  # trials exchange ids and numbers, no arrays
_LOOK_EVERY_S = 1.0
_HEAD_GONE_AFTER_S = 10.0  # Ray itself waits for 60 s, and ends the process then, without a word to anyone
_NODES_ANSWER_WITHIN_S = 120.0  # a worker process has to start there and import what trials use


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where a sweep is to run.

    Attributes:
        address: HOST:PORT of the head of a cluster that runs, or 'auto' for the one on this machine; None starts one
            here, which ends with the sweep.
        num_cpus: how many CPUs the cluster that is started here has to give.
    """

    address: str | None = None
    num_cpus: int = 1


@contextmanager
def connected(cluster: Cluster, *, on_head_lost: Callable[[str], None]) -> Iterator[None]:
    """Be connected to the cluster while the block runs; one that is started here ends with the block.

    `on_head_lost` is called from a thread, once, with the head's address, when its head has not answered for so long
    that it is taken for dead: whatever waits for Ray then may wait for ever, so it should end the process.

    Raises:
        InputError: there is no such cluster, or it cannot be used from here.
    """
    with _signals_kept():
        if cluster.address is None:
            ray.init(
                address="local",
                num_cpus=cluster.num_cpus,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                object_store_memory=_OBJECT_STORE_BYTES,
            )
        else:
            _join(cluster.address)
    watch = _HeadWatch(ray.get_runtime_context().gcs_address, on_head_lost)
    try:
        yield
    finally:
        watch.end()
        _leave()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Who caught signals before goes on to: Ray's core takes SIGTERM when it starts, and aborts the process by it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave() -> None:
    """Shut Ray down, while no thread can free a reference to one of Ray's objects.

    A reference that is freed when Ray's core is gone already, and its Python side does not know yet, ends the process
    at once, with exit code 1 and nothing that comes after. Tune leaves references in cycles, which are freed by
    whichever thread allocates next; the mirror to MLflow is at work just then.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        ray.shutdown()
    finally:
        if was_enabled:
            gc.enable()


def _join(address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        # RuntimeError: another version of Ray or Python; the token is missing or wrong
        message = f"the Ray cluster at {address} cannot be joined: {' '.join(str(error).split())}"
        raise InputError([Problem(where="--address", key="", message=message)]) from error


def nodes() -> list[Node]:
    """What each living node has, whether free or not."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def check_nodes(look: Callable[..., str | None], *arguments: Any) -> None:
    """Let each node of a cluster that was joined look whether trials can run there.

    `look` runs on each node, with the arguments; it says in one line what is wrong there.

    Raises:
        InputError: what is wrong, of all nodes together.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(look)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            *arguments
        ): node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU")
    }
    done, waiting = ray.wait(list(asked), num_returns=len(asked), timeout=_NODES_ANSWER_WITHIN_S) if asked else ([], [])
    problems = [_problem(asked[ref], _answer(ref)) for ref in done]
    problems += [_problem(asked[ref], f"no answer within {_NODES_ANSWER_WITHIN_S:g} s") for ref in waiting]
    if found := sorted((p for p in problems if p), key=str):
        raise InputError(found)


def _answer(ref: Any) -> str | None:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        text = " ".join(str(error.cause).split())
        if missing := re.search(r"No module named '[^']+'", text):
            return f"densesweep is not installed there as it is here ({missing[0]})"
        return f"{type(error.cause).__name__}: {text}"
    except ray.exceptions.RayError as error:
        return " ".join(str(error).split())


def _problem(node: str, message: str | None) -> Problem | None:
    return Problem(where=f"node {node}", key="", message=message) if message else None


class _HeadWatch:
    """A thread that notes when nobody answers at the head's address any more."""

    def __init__(self, address: str, on_lost: Callable[[str], None]) -> None:
        self._address = address
        self._on_lost = on_lost
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ray head", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Watch no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        answered = time.monotonic()
        while not self._ended.wait(_LOOK_EVERY_S):
            if answers(self._address):
                answered = time.monotonic()
            elif time.monotonic() - answered >= _HEAD_GONE_AFTER_S:
                self._on_lost(self._address)
                return
