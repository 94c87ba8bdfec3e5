"""Cells as specs of trials, untrained checkpoints and probes."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from search_spaces.blocks import parse_scale
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.cells import Cell
from search_spaces.declared import Declared
from search_spaces.schema import ResourcesBlock, SweepFile
from search_spaces.specs import (
    Execution,
    ProbeSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    ValidationSpec,
)
from search_spaces.tuning import Value


def trial_spec(cell: Cell, sweep: SweepFile, declared: Declared, tuned: Mapping[str, Value] | None = None) -> TrialSpec:
    """The trial of a cell; `tuned` are the values of hyperparameters that neither the cell nor the file gives."""
    return TrialSpec(
        kind="train",
        task=cell.task,
        training_data=declared.data(cell.training_data, "train"),
        encoder=declared.encoder(cell.family, cell.init_regime),
        similarity=similarity_spec(cell.similarity),
        scale=parse_scale(cell.scale),
        seed=cell.seed,
        training=_settings(sweep, {**cell.hyperparameters, **(tuned or {})}),
        validation=validation_spec(cell.training_data, sweep, declared),
        execution=_execution(sweep.resources),
        log_kappa_every=sweep.training.log_kappa_every if cell.task == "contrastive" else None,  # type: ignore[attr-defined]
    )


def similarity_spec(name: str) -> SimilaritySpec:
    """A similarity of the catalogue, as training starts from it."""
    entry = SIMILARITIES[name]
    return SimilaritySpec(name=entry.name, gamma_q=entry.gamma_q, gamma_d=entry.gamma_d, trained=entry.trained)


def validation_spec(training_data: str, sweep: SweepFile, declared: Declared) -> ValidationSpec | None:
    """How a training on that data is validated; None where the file asks for no validation."""
    block = sweep.validation
    if block is None:
        return None
    return ValidationSpec(
        data=declared.data(block.data or training_data.partition("/")[0], "dev"),
        every_steps=block.every_steps,
        num_queries=block.num_queries,
        num_documents=block.num_documents,
        patience=block.patience,
    )


def untrained_spec(trial: TrialSpec) -> TrialSpec:
    """The checkpoint that a trial starts from."""
    return TrialSpec(
        kind="untrained",
        task=trial.task,
        training_data=None,
        encoder=trial.encoder,
        similarity=None,
        scale=None,
        seed=seed_of_weights(trial),
        training=None,
        execution=trial.execution,
    )


def probe_spec(trial: TrialSpec, sweep: SweepFile) -> ProbeSpec:
    """What is computed on the start of a trained cell."""
    assert trial.training_data is not None, "probes are made of trained cells"
    assert trial.scale is not None, "probes are made of trained cells"
    return ProbeSpec(
        task=trial.task,
        encoder=trial.encoder,
        seed=seed_of_weights(trial),
        training_data=trial.training_data,
        scale=trial.scale,
        num_queries=sweep.probe.num_queries,
        candidates_per_query=sweep.probe.candidates_per_query,
        blocks=tuple(sweep.probe.blocks),
        empirical=sweep.probe.empirical,
        head_queries=sweep.probe.head_queries,
        weights_queries=sweep.probe.weights_queries,
        weights_layers=sweep.probe.weights_layers,
        time_budget_s=sweep.probe.time_budget_s,
        execution=_execution_of_probe(sweep),
    )


def _settings(sweep: SweepFile, hyperparameters: Mapping[str, Any]) -> TrainingSettings:
    given = {f.name: getattr(sweep.training, f.name) for f in fields(TrainingSettings)}
    return TrainingSettings(**{**{k: v for k, v in given.items() if v is not None}, **hyperparameters})


def _execution(resources: ResourcesBlock) -> Execution:
    return Execution(
        threads=resources.threads or resources.cpus,
        device="gpu" if resources.gpus else "cpu",
        num_devices=resources.devices,
        chunk_size=resources.chunk_size,
        torch_compile=resources.torch_compile,
    )


def _execution_of_probe(sweep: SweepFile) -> Execution:
    """A trial's, but for what the file gives probes of their own."""
    own, resources = sweep.probe.resources, sweep.resources
    threads = own.cpus or _execution(resources).threads
    return replace(_execution(resources), threads=threads, device="gpu" if own.gpus_of(resources) else "cpu")


def seed_of_weights(trial: TrialSpec) -> int | None:
    """The seed that a trial's starting weights depend on; None where its regime draws none."""
    return trial.seed if INIT_REGIMES[trial.encoder.init_regime].seeded else None
