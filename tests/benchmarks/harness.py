"""Fair timing on a machine that is never quiet: contestants in processes of their own, run in turn, compared in pairs.

A contestant is a function that works in units (optimiser steps) and calls `gate.unit_done` after each. It runs in its
own spawned process, so that neither its allocator nor its caches nor its memory are the other's. The parent lets one at
a time through a block of units, in the order A B, B A, A B, ...: what slows the machine for a while slows both, and the
ratio of two neighbouring blocks stays. CPU time is noted beside wall time: other processes add to it far less.
"""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

_LEAVING_S = 30.0


class ContestantError(RuntimeError):
    """A contestant's process failed; the message has its traceback."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some units of work: how long they took in seconds, and what each told (its loss).

    `peak_bytes` is the highest resident memory so far above that when the contestant called `memory_from_here`; None
    where it never did, or the system does not tell.
    """

    wall_s: float
    cpu_s: float
    values: tuple[float, ...]
    peak_bytes: int | None = None

    def seconds(self, clock: str) -> float:
        """By the 'wall' or the 'cpu' clock, the latter summed over the threads of the process."""
        return self.wall_s if clock == "wall" else self.cpu_s


class Stopped(BaseException):
    """The parent wants no more of this contestant. No `Exception`, so that nobody takes it for a failure."""


class Gate:
    """The contestant's side. Its first unit warms up: the block with it holds the setting up, too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._resident_bytes: int | None = None
        self._begin(num_units=1)

    def memory_from_here(self) -> None:
        """What is resident now (imported libraries) is no part of the work's memory."""
        self._resident_bytes = status_bytes("VmRSS")

    def unit_done(self, value: float = float("nan")) -> None:
        """One unit is done, and `value` is what it gave; returns when the next is wanted.

        Raises:
            Stopped: the parent has enough.
        """
        self._values.append(value)
        if len(self._values) < self._num_units:
            return
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        values, peak_bytes = tuple(self._values), self._peak_bytes()
        self._connection.send(Block(wall_s=wall_s, cpu_s=cpu_s, values=values, peak_bytes=peak_bytes))
        num_units = self._connection.recv()
        if not num_units:
            raise Stopped
        self._begin(num_units)

    def _peak_bytes(self) -> int | None:
        peak = status_bytes("VmHWM")
        return None if peak is None or self._resident_bytes is None else peak - self._resident_bytes

    def _begin(self, num_units: int) -> None:
        self._num_units = num_units
        self._values: list[float] = []
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A named function `run(job, gate)` at the top level of a module, which calls `gate.unit_done` after each unit.

    `job` is anything that can be pickled; `environment` holds variables that its process starts with.
    """

    name: str
    run: Callable[[Any, Gate], None]
    job: Any
    environment: Mapping[str, str] = field(default_factory=dict)


class Started:
    """The parent's side of a contestant that runs in its own process."""

    def __init__(self, contestant: Contestant) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = contestant.name
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_in_process, args=(contestant.run, contestant.job, theirs), daemon=True)
        with _variables(contestant.environment):
            self._process.start()
        theirs.close()

    def warm_up(self) -> Block:
        """Wait until it has done its first unit. Raises ContestantError, as `block` does, where it fails."""
        return self._answer()

    def block(self, num_units: int) -> Block:
        """Let it do `num_units` units of work, after the first."""
        self._connection.send(num_units)
        return self._answer()

    def close(self) -> None:
        """End its process, and wait for that."""
        with suppress(OSError):  # it has failed, and said so
            self._connection.send(0)
        self._process.join(_LEAVING_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def _answer(self) -> Block:
        try:
            answer: Block | str = self._connection.recv()
        except EOFError as error:
            raise ContestantError(f"{self.name}: its process ended without a word") from error
        if isinstance(answer, str):
            raise ContestantError(f"{self.name}: {answer}")
        return answer


def _in_process(run: Callable[[Any, Gate], None], job: Any, connection: Connection) -> None:
    try:
        run(job, Gate(connection))
        connection.send("it came to its end before the parent had enough")
    except Stopped:
        pass
    except Exception:
        connection.send(traceback.format_exc())
        raise


def status_bytes(name: Literal["VmRSS", "VmHWM"]) -> int | None:
    """This process's resident memory, now or at its peak; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def started(contestants: Sequence[Contestant]) -> Iterator[list[Started]]:
    """The contestants in their processes; none has warmed up. All have ended when the context is left."""
    running: list[Started] = []
    try:
        for contestant in contestants:
            running.append(Started(contestant))
        yield running
    finally:
        for process in running:
            process.close()


def in_turn(contestants: Sequence[Contestant], *, rounds: int, units: Mapping[str, int]) -> dict[str, list[Block]]:
    """Blocks of each contestant by its name: first its warming up, then one for each round.

    Args:
        contestants: with different names. The order within a round turns round each time.
        rounds: how many blocks of each after the first.
        units: how many units of work a block has, by name.

    Raises:
        ContestantError: one failed.
    """
    with started(contestants) as running:
        blocks = {contestant.name: [contestant.warm_up()] for contestant in running}
        for number in range(rounds):
            for contestant in running if number % 2 == 0 else reversed(running):
                blocks[contestant.name].append(contestant.block(units[contestant.name]))
    return blocks
