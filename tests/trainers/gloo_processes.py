"""One of several processes that train together over gloo, started by `test_processes`; dumps what it saw."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.optim import SGD

from results.store import open_store
from search_spaces.specs import TrialSpec, from_json
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas
from trainers.threads import set_threads
from trainers.training.accelerators import fresh_accelerator
from trainers.training.batch_source import batches_of
from trainers.training.objectives import objective_of
from trainers.training.resume import CheckpointPolicy
from trainers.training.retriever import Retriever
from trainers.training.stepping import Stepper
from trainers.training.train import train


class Recording(SGD):
    """Keeps the gradients of each step; weights stay as they are."""

    def __init__(self, retriever: Retriever) -> None:
        named = {name: weight for name, weight in retriever.named_parameters() if weight.requires_grad}
        super().__init__(list(named.values()), lr=0.0)
        self.param_groups[0]["initial_lr"] = 0.0
        self.named, self.gradients = named, []

    def step(self) -> None:
        self.gradients.append({n: w.grad.clone() for n, w in self.named.items() if w.grad is not None})


def gradients(spec: TrialSpec, folder: Path) -> None:
    """The gradients of the first steps at the starting weights."""
    settings = spec.training
    accelerator = fresh_accelerator("cpu", settings.precision, num_devices=spec.execution.num_devices)
    retriever = Retriever(start_encoder(spec.encoder, spec.seed), Gammas.from_spec(spec.similarity))
    batches = batches_of(spec.task, spec.training_data, settings, spec.seed, retriever.encoder, 64)
    optimizer = Recording(retriever)
    stepper = Stepper(
        accelerator,
        retriever,
        batches,
        optimizer=optimizer,
        objective=objective_of(spec.task, spec.scale, settings),
        scale=spec.scale,
        settings=replace(settings, clip_norm=1e9),
        execution=spec.execution,
        seed=spec.seed,
    )
    losses = [stepper.step(step).loss for step in range(1, 4)]
    rank = stepper.processes.rank
    tensors = {f"{step}/{name}": g for step, found in enumerate(optimizer.gradients) for name, g in found.items()}
    save_file(tensors, folder / f"gradients-{rank}.safetensors")
    (folder / f"losses-{rank}.json").write_text(json.dumps(losses))


def whole_training(spec: TrialSpec, folder: Path) -> None:
    """A trial's training, its checkpoint in the store."""
    reports = []
    result = train(
        spec,
        store=open_store(str(folder / "sweep")),
        report=reports.append,
        verify=lambda: None,
        checkpoint_policy=CheckpointPolicy(every_steps=2),
    )
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    losses = [step.loss for step in result.history]
    scores = [step.validation_score for step in result.history]
    seen = {"losses": losses, "scores": scores, "reports": len(reports), "best_step": result.best_step}
    (folder / f"training-{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    set_threads(1)
    spec_file, folder, what = sys.argv[1:]
    spec = from_json(TrialSpec, Path(spec_file).read_text())
    {"gradients": gradients, "training": whole_training}[what](spec, Path(folder))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
