"""Ray workers that a sweep has to spare help a trial to encode, until somebody needs their place.

A helper is an actor with as many CPUs and GPUs as the trial itself has. It is hired where Ray has them free and nobody
waits for any, as it is at the end of a sweep. When a trial, a probe or another task does wait (a retry, say), helpers
are dismissed one after the other. What a helper was at is given back and done by somebody else, with the same result:
a helper that is lost or dismissed costs time only.

Requests of helpers are told from all others by one byte of memory more than the trial asked for.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import ray
from ray.exceptions import RayError

from orchestrator.ray_internals import cluster_state
from results.layout import SWEEP_LOCK
from results.locks import verify_token
from results.store import open_store
from search_spaces.specs import TrialSpec
from trainers.arrays import FloatMatrix
from trainers.evaluation.corpus_pass import ShardSearch
from trainers.evaluation.evaluations import Wanted
from trainers.evaluation.shard_helper import Helped, hardware, open_shard_search
from trainers.evaluation.shard_queue import ShardFound, ShardQueue

Share = Mapping[str, float]  # of Ray's resources, by its names

_LOGGER = logging.getLogger(__name__)
_SCARCE = ("CPU", "GPU")
_POLL_S = 0.5
_WAITED_POLLS = 2  # what is being placed is seen as waiting for a moment
_PLACED_WITHIN_S = 5.0  # Ray tells a second late what is free: who is not placed by then stands in somebody's way
_MOST_LOST = 3  # of one pass: what ended them would end others too


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Where a helper reads and writes, and under which lock."""

    store_uri: str
    lock_token: int


class SpareWorkers:
    """The helpers of one trial."""

    def __init__(self, sweep: Sweep, trial_id: str, spec: TrialSpec, share: Share) -> None:
        """`share` is what Ray gave the trial, and each helper gets."""
        self._sweep = sweep
        self._trial_id = trial_id
        self._execution = spec.execution
        has = {name: amount for name, amount in share.items() if not name.startswith(("node:", "bundle"))}
        self._share = {**has, "memory": has.get("memory", 0) + 1}

    @contextmanager
    def helping(
        self, wanted: Wanted, order: str, query_SQH: Sequence[FloatMatrix], queue: ShardQueue
    ) -> Iterator[None]:
        """While the block runs, hire whom there is to take shards of the queue; one shard alone is no work to share."""
        if queue.num_left < 2 or not any(self._share.get(name) for name in _SCARCE):
            yield
            return
        device = self._execution.device
        helped = Helped(
            trial_id=self._trial_id, device=device, threads=self._execution.threads, hardware=hardware(device)
        )
        orders = _Orders(
            sweep=self._sweep,
            helped=helped,
            wanted=wanted,
            order=order,
            query_SQH=query_SQH,
            shard_texts=queue.shard_texts,
        )
        crew = _Crew(orders, self._share, queue)
        thread = threading.Thread(target=crew.run, name="helpers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            crew.is_over.set()
            thread.join()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Orders:
    """What every helper of a pass is told."""

    sweep: Sweep
    helped: Helped
    wanted: Wanted
    order: str
    query_SQH: Sequence[FloatMatrix]
    shard_texts: int


class _HelperProcess:
    """The helper's side. Starting takes a moment, getting ready much longer: they are two steps."""

    _search: ShardSearch

    def start(self) -> None:
        """Its process is there."""

    def get_ready(self, orders: _Orders) -> None:
        """Load everything."""
        store = open_store(orders.sweep.store_uri)
        self._search = open_shard_search(
            orders.helped,
            orders.wanted,
            orders.order,
            orders.query_SQH,
            shard_texts=orders.shard_texts,
            store=store,
            verify=lambda: verify_token(store, SWEEP_LOCK, orders.sweep.lock_token),
        )

    def found(self, number: int) -> ShardFound:
        """Do a shard."""
        return self._search.found(number)


@dataclass(kw_only=True)
class _Helper:
    """The trial's side: what the helper is at."""

    actor: Any
    call: ray.ObjectRef
    at: Literal["start", "get_ready", "shard"] = "start"
    shard: int | None = None
    hired: float


class _Crew:
    """The helpers of one pass, looked after by one thread."""

    def __init__(self, orders: _Orders, share: Share, queue: ShardQueue) -> None:
        self.is_over = threading.Event()
        self._orders = orders
        self._laid_out: ray.ObjectRef | None = None  # the orders, once, where all helpers can read them
        self._share = share
        self._queue = queue
        self._helpers: list[_Helper] = []
        self._num_lost = 0
        self._num_waited = 0

    def run(self) -> None:
        """Hire, hear and dismiss until it is over; then all are dismissed, and their shards given back."""
        try:
            while not self.is_over.is_set():
                self._hire_or_dismiss()
                self._hear()
        finally:
            while self._helpers:
                self._dismiss(self._helpers[-1])

    def _hire_or_dismiss(self) -> None:
        cluster = cluster_state()
        waits = is_waited_for(cluster, self._share)
        self._num_waited = self._num_waited + 1 if waits else 0
        if self._helpers and self._num_waited >= _WAITED_POLLS:
            self._dismiss(self._helpers[-1])
        starting = [helper for helper in self._helpers if helper.at == "start"]
        for helper in starting:
            if time.monotonic() - helper.hired > _PLACED_WITHIN_S and is_a_helper_unplaced(cluster, self._share):
                self._dismiss(helper)
        coming = [helper for helper in self._helpers if helper.at != "shard"]
        wanted = self._queue.num_left > len(coming) and self._num_lost < _MOST_LOST
        if wanted and not (waits or starting) and is_free(cluster, self._share):
            self._hire()

    def _hire(self) -> None:
        others = {name: n for name, n in self._share.items() if name not in (*_SCARCE, "memory")}
        actor = (
            ray.remote(_HelperProcess)
            .options(
                num_cpus=self._share.get("CPU", 0),
                num_gpus=self._share.get("GPU", 0),
                memory=self._share["memory"],
                resources=others,
                scheduling_strategy="SPREAD",  # any other would put it into the trial's own placement group
            )
            .remote()
        )
        self._helpers.append(_Helper(actor=actor, call=actor.start.remote(), hired=time.monotonic()))

    def _hear(self) -> None:
        calls = {helper.call: helper for helper in self._helpers}
        if not calls:
            self.is_over.wait(_POLL_S)
            return
        done, _ = ray.wait(list(calls), timeout=_POLL_S)
        for call in done:
            try:
                self._go_on(calls[call], ray.get(call))
            except RayError as error:  # somebody else does its shard, and fails there if that is what failed
                self._num_lost += 1
                _LOGGER.warning("a helper was lost: %s", error)
                self._dismiss(calls[call])

    def _go_on(self, helper: _Helper, answer: ShardFound | None) -> None:
        if helper.at == "start":
            self._laid_out = self._laid_out or ray.put(self._orders)
            helper.at, helper.call = "get_ready", helper.actor.get_ready.remote(self._laid_out)
            return
        if answer is not None:
            self._queue.hand_in(answer)
        helper.at, helper.shard = "shard", self._queue.take()
        if helper.shard is None:
            self._dismiss(helper)
        else:
            helper.call = helper.actor.found.remote(helper.shard)

    def _dismiss(self, helper: _Helper) -> None:
        self._helpers.remove(helper)
        ray.kill(helper.actor)
        if helper.shard is not None:
            self._queue.give_back(helper.shard)


def is_waited_for(cluster: Any, share: Share) -> bool:
    """Whether a trial, a probe or another task waits for something of what a helper holds."""
    alone = [request.request.resources_bundle for request in cluster.pending_resource_requests]
    together = [
        bundle.resources_bundle
        for gang in cluster.pending_gang_resource_requests
        for selector in gang.bundle_selectors
        for bundle in selector.resource_requests
    ]
    others = [bundle for bundle in (*alone, *together) if bundle.get("memory") != share["memory"]]
    return any(bundle.get(name, 0) > 0 for bundle in others for name in _SCARCE if share.get(name))


def is_a_helper_unplaced(cluster: Any, share: Share) -> bool:
    """Whether somebody's helper waits for its CPUs or GPUs."""
    return any(
        request.request.resources_bundle.get("memory") == share["memory"]
        for request in cluster.pending_resource_requests
    )


def is_free(cluster: Any, share: Share) -> bool:
    """Whether one node has all of a share to give."""
    return any(
        all(node.available_resources.get(name, 0) >= amount for name, amount in share.items())
        for node in cluster.node_states
    )
