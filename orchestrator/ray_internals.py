"""All that is used of Ray beside what it documents: another version may lack it, or have it otherwise.

Nothing else imports these parts of Ray (ruff refuses it), and `pyproject.toml` bounds the versions for their sake.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import ray
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
)


def check_internals(used: tuple[tuple[str, str], ...] = USED) -> None:
    """Make sure that this Ray has all of it, before anything is started.

    Raises:
        InputError: what it lacks, and which versions have it.
    """
    if lacking := [f"{module}.{name}" for module, name in used if not _is_there(module, name)]:
        message = (
            f"version {ray.__version__} lacks {', '.join(lacking)}, by which densesweep gives back what lost processes "
            "held and finds out who waits: install a version that its pyproject.toml allows"
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
