"""Why Ray lost a process, in one line for people; what ran out of memory is told from what died otherwise."""

import re
from dataclasses import dataclass

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.machine import oom_kills
from trainers.failures import REMEDY

_OF_RAYS_MONITOR = ("OutOfMemory", "memory monitor", "low on memory")
_NODE_ANSWERS_WITHIN_S = 10.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """On which node a trial began, and how many processes that node's kernel had ended by then for want of memory."""

    node_id: str
    oom_kills: int | None


def whereabouts() -> Whereabouts:
    """Those of this process."""
    return Whereabouts(node_id=ray.get_runtime_context().get_node_id(), oom_kills=oom_kills())


def reason_of_death(text: str, began: Whereabouts | None) -> str:
    """One line on why Ray lost a process; `text` is Ray's own, `began` where the process worked."""
    if any(sign in text for sign in _OF_RAYS_MONITOR):
        return f"out of memory: Ray ended the worker, since its node was running low; {REMEDY}"
    if began and _kernel_ended_one(began):
        return f"out of memory: the kernel ended the worker; {REMEDY}"
    return f"worker died: {first_line(text)}"


def first_line(text: str) -> str:
    """The first line, without the colours that Ray puts in."""
    lines = _COLOURS.sub("", text).strip().splitlines()
    return lines[0] if lines else "no reason known"


def _kernel_ended_one(began: Whereabouts) -> bool:
    """Whether the node's kernel has ended a process for want of memory since. Ray only sees that it was killed."""
    if began.oom_kills is None:
        return False
    now = oom_kills() if began.node_id == ray.get_runtime_context().get_node_id() else _oom_kills_at(began.node_id)
    return now is not None and now > began.oom_kills


def _oom_kills_at(node_id: str) -> int | None:
    """The count of another node; None where it does not answer, as one that died does not."""
    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    count = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(oom_kills).remote()
    try:
        return ray.get(count, timeout=_NODE_ANSWERS_WITHIN_S)
    except ray.exceptions.RayError:  # its time-out is one of these
        return None
