"""All that is used of Ray beside what it documents: another version may lack it, or have it otherwise.

Nothing else imports these parts of Ray (ruff refuses it), and `pyproject.toml` bounds the versions for their sake.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import ray
from ray.tune.experiment import Trial
from ray.util.placement_group import PlacementGroup

from search_spaces.problems import InputError, Problem

_GROUPS = ("ray.core.generated.gcs_pb2", "PlacementGroupTableData")
_STATES = ("ray.core.generated.autoscaler_pb2", "ClusterResourceState")
USED = (
    ("ray._private.state", "state._connect_and_get_accessor"),
    ("ray._private.worker", "global_worker"),
    ("ray.autoscaler.v2.sdk", "get_cluster_resource_state"),
    *((_GROUPS[0], f"{_GROUPS[1]}.{field}_FIELD_NUMBER") for field in ("STATE", "CREATOR_ACTOR_ID")),
    *((_GROUPS[0], f"{_GROUPS[1]}.{name}") for name in ("CREATOR_ACTOR_DEAD_FIELD_NUMBER", "REMOVED")),
    *((_STATES[0], f"{_STATES[1]}.{field}_FIELD_NUMBER") for field in ("NODE_STATES", "PENDING_RESOURCE_REQUESTS")),
    (_STATES[0], f"{_STATES[1]}.PENDING_GANG_RESOURCE_REQUESTS_FIELD_NUMBER"),
    ("ray.tune.execution.tune_controller", "TuneController.update_max_pending_trials"),
    ("ray.tune.execution.tune_controller", "TuneController._maybe_update_trial_queue"),
    ("ray.air.execution._internal", "RayActorManager.is_actor_started"),
    ("ray.tune.utils.object_cache", "_ObjectCache.has_cached_object"),
)


def check_internals(used: tuple[tuple[str, str], ...] = USED) -> None:
    """Make sure that this Ray has all of it, before anything is started.

    Raises:
        InputError: what it lacks, and which versions have it.
    """
    if lacking := [f"{module}.{name}" for module, name in used if not _is_there(module, name)]:
        message = (
            f"version {ray.__version__} lacks {', '.join(lacking)}, by which densesweep gives back what lost processes "
            "held, finds out who waits and lets actors take another trial: install a version that its pyproject.toml "
            "allows"
        )
        raise InputError([Problem(where="ray", key="", message=message)])


def _is_there(module: str, name: str) -> bool:
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True


def cluster_state() -> Any:
    """What each node has free and what waits for a place, as Ray's autoscaler is told: a ClusterResourceState."""
    from ray._private.worker import global_worker
    from ray.autoscaler.v2.sdk import get_cluster_resource_state

    return get_cluster_resource_state(global_worker.gcs_client)


def orphaned_groups() -> Iterator[PlacementGroup]:
    """Placement groups of actors that are dead; those that no actor made, such as Tune's, are not among them."""
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData

    # Ray's public table of placement groups does not tell who made one.
    for row in map(PlacementGroupTableData.FromString, state._connect_and_get_accessor().get_placement_group_table()):
        is_there = row.state != PlacementGroupTableData.REMOVED
        if is_there and row.creator_actor_dead and not ray.ActorID(row.creator_actor_id).is_nil():
            yield PlacementGroup(ray.PlacementGroupID(row.placement_group_id))


def trial_for_a_free_actor(wrapped: Any) -> Trial | None:
    """A trial that waits, if one of Tune's actors is free for it; `wrapped` is what a scheduler is given of Tune.

    Left to itself Tune gives the free actor to any trial that waits, even to one whose own actor is loading its
    libraries just then, and ends that one: with trials shorter than such a start, all places but one do nothing but
    start actors. Tune is to hold one trial more than there are actors that start, so that another one waits.
    """
    controller = wrapped._tune_controller
    if starting := [trial for trial in _pending(controller) if _is_starting(controller, trial)]:
        controller.update_max_pending_trials(len(starting) + 1)
        controller._maybe_update_trial_queue()  # at once: in its next step Tune would have given the free actor away
    else:
        controller.update_max_pending_trials(1)
    waiting = (trial for trial in _pending(controller) if trial not in starting)
    return next(
        (trial for trial in waiting if controller._actor_cache.has_cached_object(trial.placement_group_factory)), None
    )


def _pending(controller: Any) -> list[Trial]:
    return [trial for trial in controller.get_live_trials() if trial.status == Trial.PENDING]


def _is_starting(controller: Any, trial: Trial) -> bool:
    """Whether an actor of its own has its place already."""
    actor = controller._trial_to_actor.get(trial)
    return actor is not None and controller._actor_manager.is_actor_started(actor)
