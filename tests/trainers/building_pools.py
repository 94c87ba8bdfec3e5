"""A process of its own that builds pools and dies by SIGKILL when it was told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from search_spaces.specs import EvaluationSpec, from_json, to_json

SHARD = 16
_PROGRAM = "from tests.trainers.building_pools import main; import sys; main(*sys.argv[1:])"


def build_in_process(evaluations: list[EvaluationSpec], sweep: Path, counted: Path, *, die_after: int = 0) -> int:
    """Build in shards of 16 texts with a snapshot after each; the exit code. `counted` is told the texts encoded."""
    counted.write_text("0")
    root = Path(__file__).parents[2]
    specs = [to_json(evaluation) for evaluation in evaluations]
    command = [sys.executable, "-c", _PROGRAM, str(sweep), str(counted), str(die_after), *specs]
    return subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False).returncode


def main(sweep: str, counted: str, die_after: str, *specs: str) -> None:
    """What the process does."""
    from results.store import open_store
    from trainers.encoders.encoder import Encoder
    from trainers.evaluation import corpus_pass, pool_building, snapshots

    corpus_pass.BLOCK_DOCUMENTS = pool_building.BLOCK_DOCUMENTS = SHARD
    snapshots.EVERY_S, snapshots._MOST_OF_THE_TIME = 0.0, float("inf")
    forward = Encoder.forward

    def counting(self, token_ids, *args, **kwargs):
        encoded = int(Path(counted).read_text()) + len(token_ids)
        if 0 < int(die_after) < encoded:
            os.kill(os.getpid(), signal.SIGKILL)
        Path(counted).write_text(str(encoded))
        return forward(self, token_ids, *args, **kwargs)

    Encoder.forward = counting
    store = open_store(sweep)
    pool_building.build_missing(
        [from_json(EvaluationSpec, spec) for spec in specs], pool_building.Building(store=store)
    )
