"""Which process runs a trial, and which node it is of."""

import json

import psutil
from nodes import Node
from small_sweeps import Sweep


def runners(sweep: Sweep) -> dict[str, int]:
    """Title -> pid of what runs a trial, first those that have a training checkpoint; none while there is no such."""
    trained = {path.parts[-3] for path in sweep.training_checkpoints()}
    if not trained:
        return {}
    record = json.loads((sweep.folder / "sweep.json").read_text())
    titles = [t["title"] for t in sorted(record["trials"], key=lambda trial: trial["trial_id"] not in trained)]
    statuses = sweep.statuses()
    running = [title for title in titles if title in statuses and statuses[title]["state"] == "running"]
    return {title: int(statuses[title]["owner"].rpartition(":")[2]) for title in running}


def runs_on(node: Node, pid: int) -> bool:
    """Whether a process is one of the node's."""
    return pid in {child.pid for child in psutil.Process(node.process.pid).children(recursive=True)}
