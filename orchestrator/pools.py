"""Build a sweep's pools on Ray, before its trials: a task for each starting encoder, then one for each pool."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import ray

from orchestrator.events import Ended, EnteredPhase, Listener, Started
from orchestrator.interrupt import Interrupt
from results.layout import Status, pool_prefix, spec_key
from results.store import open_store
from search_spaces.specs import EvaluationSpec, from_json
from trainers.evaluation.pools import contributors

if TYPE_CHECKING:
    from orchestrator.placing import Work


def build_pools(work: "Work", listener: Listener, interrupt: Interrupt) -> str | None:
    """Return when the pools that `work` names are built, or the run was interrupted; why they could not be, in a line.

    A pool that is not there fails every evaluation on it, so that no trial is worth starting then.
    """
    if not work.pools:
        return None
    store = open_store(work.store_uri)
    pooled = [from_json(EvaluationSpec, store.read(spec_key(pool_prefix(key)))) for key in work.pools]
    started_at = _now()
    for key in work.pools:
        listener(Started(key=key))
    reason = _encode(work, len(contributors(pooled)), listener, interrupt)
    if reason is None and not interrupt.asked:
        for key in work.pools:
            listener(EnteredPhase(key=key, phase="putting together"))
        arguments = [(work.store_uri, key, work.lock_token) for key in work.pools]
        reason = _wait([_task(work, _pool, gpus=0).remote(*some) for some in arguments], interrupt)
    if interrupt.asked:
        return None
    failed, finished = Status(state="failed", started_at=started_at), Status(state="finished", started_at=started_at)
    status = replace(failed if reason else finished, finished_at=_now(), reason=reason)
    for key in work.pools:
        listener(Ended(key=key, status=status))
    return None if reason is None else f"no trial was started, since a pool cannot be built: {reason}"


def _encode(work: "Work", num_encoders: int, listener: Listener, interrupt: Interrupt) -> str | None:
    """What every starting encoder gives to the pools, several at once."""
    task = _task(work, _pool_parts, gpus=work.resources.gpus)
    refs = [task.remote(work.store_uri, tuple(work.pools), index, work.lock_token) for index in range(num_encoders)]

    def say(num_done: int) -> None:
        for key in work.pools:
            listener(
                EnteredPhase(key=key, phase=f"{num_done} of {num_encoders} starting encoders have read the corpus")
            )

    return _wait(refs, interrupt, say)


def _task(work: "Work", function: Any, *, gpus: float) -> Any:
    return ray.remote(num_cpus=work.cpus_in_one_process, num_gpus=gpus, max_retries=work.resources.retries)(function)


def _wait(refs: Sequence[Any], interrupt: Interrupt, say: Callable[[int], None] = lambda _: None) -> str | None:
    """The reason of the first task that failed; None where none did, or the run was interrupted.

    `say` is told how many are done, whenever that changes.
    """
    pending = list(refs)
    while pending and not interrupt.asked:
        done, pending = ray.wait(pending, timeout=0.5)
        for ref in done:
            if reason := _reason(ref):
                return reason
        if done:
            say(len(refs) - len(pending))
    return None


def _reason(ref: Any) -> str | None:
    try:
        found: str | None = ray.get(ref)
        return found
    except ray.exceptions.RayTaskError as error:  # the tasks tell their own failures: this is one of ours
        return f"{type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        return f"worker died: {(str(error).strip().splitlines() or ['no reason known'])[0]}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _pool_parts(store_uri: str, keys: Sequence[str], index: int, lock_token: int) -> str | None:
    from orchestrator.worker import run_placed_pool_parts

    return run_placed_pool_parts(store_uri, keys, index, lock_token)


def _pool(store_uri: str, key: str, lock_token: int) -> str | None:
    from orchestrator.worker import run_placed_pool

    return run_placed_pool(store_uri, key, lock_token)
