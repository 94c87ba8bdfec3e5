"""Whether trials can run on a node of a cluster, as the node itself sees it. Imports no framework."""

from collections.abc import Mapping
from importlib.metadata import version

from results.layout import SWEEP_RECORD
from results.schemas import SCHEMA_VERSION
from results.store import open_existing_store
from search_spaces.identity import EVALUATION_VERSION, PROBE_VERSION, TRAINING_VERSION


def versions() -> dict[str, str]:
    """What has to be the same on all nodes, or their results are not."""
    ours = {
        "trainings": TRAINING_VERSION,
        "evaluations": EVALUATION_VERSION,
        "probes": PROBE_VERSION,
        "rows": SCHEMA_VERSION,
    }
    return {**{name: str(number) for name, number in ours.items()}, "torch": version("torch")}


def node_problem(store_uri: str, expected: Mapping[str, str]) -> str | None:
    """Why trials cannot run here, in one line; None where they can.

    Args:
        store_uri: the sweep folder.
        expected: the driver's `versions`.
    """
    found = versions()
    other = [f"{name} {found[name]} instead of {expected[name]}" for name in expected if found[name] != expected[name]]
    if other:
        return f"its densesweep is not that of the driver: {', '.join(other)}"
    store = open_existing_store(store_uri)
    if store is None or not store.exists(SWEEP_RECORD):
        return f"the sweep folder {store_uri} is not there (all nodes must see it: name shared storage)"
    return None
