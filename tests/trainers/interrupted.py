"""A process of its own that evaluates a checkpoint and dies by SIGKILL when it was told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from results.store import open_store
from search_spaces.specs import EvaluationSpec, from_json, to_json

SHARD = 16
_PROGRAM = "from tests.trainers.interrupted import main; import sys; main(*sys.argv[1:])"


def evaluate_in_process(
    checkpoint: Path,
    evaluations: list[EvaluationSpec],
    sweep: Path,
    counted: Path,
    *,
    die_after: int = 0,
    die_reading: int = 0,
    only_missing: bool = False,
) -> tuple[int, int]:
    """Evaluate with every similarity, in shards of 16 texts with a snapshot after each; (exit code, texts encoded).

    With `die_after` the process kills itself when it is to encode a text beyond so many, with `die_reading` when its
    reader is to answer for the so manieth time. `only_missing` leaves out the similarities whose rows are there. How
    many texts are encoded is counted in the file `counted`.
    """
    counted.write_text("0")
    specs = [to_json(evaluation) for evaluation in evaluations]
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-c",
        _PROGRAM,
        str(checkpoint),
        str(sweep),
        str(counted),
        str(die_after),
        str(die_reading),
    ]
    command.append("missing" if only_missing else "all")
    done = subprocess.run([*command, *specs], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False)
    return done.returncode, int(counted.read_text())


def main(
    checkpoint: str, sweep: str, count_file: str, die_after: str, die_reading: str, which: str, *specs: str
) -> None:
    """What the process does."""
    from search_spaces.scoring import score_similarities
    from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
    from trainers.evaluation import corpus_pass, snapshots
    from trainers.evaluation.evaluate import evaluate_all
    from trainers.evaluation.evaluations import missing_evaluations
    from trainers.evaluation.reader import Reader

    corpus_pass.BLOCK_DOCUMENTS = SHARD
    snapshots.EVERY_S, snapshots._MOST_OF_THE_TIME = 0.0, float("inf")
    encoder = load_checkpoint(Path(checkpoint)).encoder
    counted = Path(count_file)

    def count(_: object, inputs: tuple) -> None:
        encoded = int(counted.read_text()) + len(inputs[0])
        if 0 < int(die_after) < encoded:
            os.kill(os.getpid(), signal.SIGKILL)
        counted.write_text(str(encoded))

    encoder.register_forward_pre_hook(count)
    answers, times = Reader.answers, []

    def answer(reader: Reader, *arguments, **named) -> list[str]:
        times.append(1)
        if len(times) == int(die_reading):
            os.kill(os.getpid(), signal.SIGKILL)
        return answers(reader, *arguments, **named)

    Reader.answers = answer
    evaluations = [from_json(EvaluationSpec, spec) for spec in specs]
    store = open_store(sweep)
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in evaluations}
    if which == "missing":
        wanted = {e: missing_evaluations(checkpoint_hash(Path(checkpoint)), None, e, store) for e in evaluations}
    evaluate_all(Path(checkpoint), wanted, store=store, encoder=encoder)
