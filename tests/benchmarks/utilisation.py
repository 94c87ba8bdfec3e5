"""How much of its slots' time a CPU sweep spends in training and evaluation: 30 trials of MiniLM, two layers.

A slot is what one trial in one process is given. Work is from when a trial begins to train (weights are loaded then) to
when its last evaluation is over; the untrained one is only evaluated, and the sweep's one probe is not counted. The
slots' time is counted twice: from when the first trial or probe is given to a worker to when the last is over, and for
all of the process's life.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from orchestrator.machine import available_cpus
from tests.benchmarks.options import Options
from tests.benchmarks.sweep_runs import timed_run

_NUM_SEEDS = 10
_SIMILARITIES = ("cosine", "qnorm", "dnorm")


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Shares of the slots' time, 0 to 1."""

    num_trials: int
    num_slots: int
    while_placing: float
    of_the_process: float
    work_per_trial_s: float

    def __str__(self) -> str:
        return (
            f"{self.num_trials} trials of {self.work_per_trial_s:.1f} s in {self.num_slots} slots: "
            f"{self.while_placing:.3f} of the slots' time is work, {self.of_the_process:.3f} of the whole process's"
        )


def run(options: Options) -> Iterator[Utilisation]:
    """One sweep."""
    num_slots = available_cpus()
    with tempfile.TemporaryDirectory(prefix="densesweep-utilisation-") as home:
        run = timed_run(_sweep_file(Path(home)))
    trials = [span for span in run.spans if not span.title.startswith("probe ")]
    work_s = sum(span.work_s for span in trials)
    placing_s = max(span.ended_s for span in run.spans) - min(span.started_s for span in run.spans)
    yield Utilisation(
        num_trials=len(run.ends_s),
        num_slots=num_slots,
        while_placing=work_s / (num_slots * placing_s),
        of_the_process=work_s / (num_slots * run.wall_s),
        work_per_trial_s=work_s / len(trials),
    )


def _sweep_file(home: Path) -> Path:
    content = {
        "name": "utilisation",
        "storage": str(home / "sweep"),
        "axes": {
            "task": "contrastive",
            "training_data": "attack",
            "family": {"name": "minilm", "layers": 2, "max_query_length": 32, "max_document_length": 64},
            "similarity": list(_SIMILARITIES),
            "init_regime": "finetune",
            "seed": list(range(_NUM_SEEDS)),
            "scale": "fixed(20)",
        },
        "training": {"steps": 30, "global_batch": 16, "learning_rate": 5e-5},
        "evaluation": {"groups": {"in_domain": "attack"}},
        "probe": {"num_queries": 64, "candidates_per_query": 16},
    }
    file = home / "sweep.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file
