"""Expand a sweep file: cross the axes into trials, and list probes, evaluations and what was left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Literal, TypeVar

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.catalogue.families import FAMILIES, ROLES, Checkpoint, Family, Role
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.problems import InputError, Problem
from search_spaces.schema import FamilyChoice, RagBlock, ResourcesBlock, SweepFile, parse_scale
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    Execution,
    ProbeSpec,
    RagSpec,
    ReaderExecution,
    ReaderSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    ValidationSpec,
    WeightsSpec,
)
from search_spaces.step_checks import step_problems
from search_spaces.task_checks import task_problems

_AXES = ("task", "training_data", "family", "similarity", "init_regime", "seed", "scale")
IN_DOMAIN = "in_domain"
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class CellLeftOut:
    """A family under a regime whose checkpoint it does not have."""

    family: str
    init_regime: str
    reason: str

    @property
    def title(self) -> str:
        """A short name for people."""
        return f"{self.family}/{self.init_regime}"


@dataclass(frozen=True, kw_only=True)
class GroupedEvaluation:
    """A data set to evaluate on and the groups of the sweep file that it counts in."""

    spec: EvaluationSpec
    groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """All that a sweep file asks for, without content hashes yet. Trials: trained ones, then untrained ones."""

    trials: tuple[TrialSpec, ...]
    probes: tuple[ProbeSpec, ...]
    evaluations: tuple[GroupedEvaluation, ...]
    left_out: tuple[CellLeftOut, ...]
    primary_groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Named:
    """The weights and data that a sweep file names, also where not all of it can be expanded.

    `encoders` and `batches` (training data and batch size) map to their keys in the file.
    """

    encoders: Mapping[EncoderSpec, str]
    training: tuple[DataSpec, ...]
    validation: tuple[DataSpec, ...]
    evaluation: tuple[DataSpec, ...]
    batches: Mapping[tuple[DataSpec, int], str]


@dataclass(frozen=True, kw_only=True)
class _Catalogue:
    """The catalogue with the file's own declarations."""

    families: Registry[Family]
    data_sets: Registry[DataSet]


def expand(sweep: SweepFile, *, where: str) -> Expansion:
    """Cross the axes and the include blocks of a sweep file.

    Raises:
        InputError: a cell lacks its checkpoint (unless `missing_checkpoints: leave_out`), a data set has no such
            split role, a required training setting is missing, a cell contradicts its task, or nothing is left to run.
    """
    catalogue = _catalogue(sweep)
    problems = [
        *_missing_settings(sweep, where),
        *_untrainable(sweep, catalogue, where),
        *_unvalidatable(sweep, catalogue, where),
        *task_problems(_cells(sweep), sweep, catalogue.data_sets, where),
        *step_problems(_cells(sweep), sweep, where),
    ]
    left_out = _left_out(sweep, catalogue, where)
    if sweep.missing_checkpoints == "refuse":
        problems += [problem for problem, _ in left_out]
    if problems:
        raise InputError(_distinct(problems))
    missing = {(cell.family, cell.init_regime) for _, cell in left_out}
    trained = _distinct(_trial(cell, sweep, catalogue) for cell in _cells(sweep) if _pair(cell) not in missing)
    if not trained:
        raise InputError([Problem(where=where, key="axes", message="no cell is left to run")])
    return Expansion(
        trials=(*trained, *_distinct(_untrained(trial) for trial in trained)),
        # What is probed is the Fisher information of the contrastive loss.
        probes=_distinct(_probe(trial, sweep) for trial in trained if trial.task == "contrastive"),
        evaluations=_evaluations(sweep, catalogue),
        left_out=_distinct(cell for _, cell in left_out),
        primary_groups=sweep.evaluation.primary_groups or _default_primary_groups(sweep, catalogue),
    )


def _default_primary_groups(sweep: SweepFile, catalogue: _Catalogue) -> tuple[str, ...]:
    """The groups of retrieval collections that are not in-domain; the in-domain one where there is no other."""
    retrieval = tuple(
        group
        for group, references in sweep.evaluation.groups.items()
        if not any(_data(reference, catalogue, role="test").entry.is_scored for reference in references)
    )
    return tuple(group for group in retrieval if group != IN_DOMAIN) or retrieval


def named(sweep: SweepFile) -> Named:
    """The weights and data of the cells of a sweep file; what a cell does not have is passed over, not refused."""
    catalogue = _catalogue(sweep)
    encoders: dict[EncoderSpec, str] = {}
    training: list[DataSpec] = []
    validation: list[DataSpec] = []
    batches: dict[tuple[DataSpec, int], str] = {}
    for cell in _cells(sweep):
        block, family = cell["block"], cell["family"].name
        if _checkpoint(catalogue.families[family], cell["init_regime"]):
            encoder = _encoder(cell["family"], cell["init_regime"], catalogue)
            encoders.setdefault(encoder, f"{block}.family '{family}'")
        elif sweep.missing_checkpoints == "leave_out":
            continue
        data = _data(cell["training_data"], catalogue, role="train")
        if not data.split:
            continue
        training.append(data)
        if (validated := _validation(cell["training_data"], sweep, catalogue)) and validated.data.split:
            validation.append(validated.data)
        own = cell["hyperparameters"].get("global_batch")
        if size := own or sweep.training.global_batch:  # type: ignore[attr-defined]
            key = f"{block}.hyperparameters.global_batch" if own else "training.global_batch"
            batches.setdefault((data, size), key)
    evaluation = tuple(evaluation.spec.data for evaluation in _evaluations(sweep, catalogue))
    return Named(
        encoders=encoders,
        training=_distinct(training),
        validation=_distinct(validation),
        evaluation=evaluation,
        batches=batches,
    )


def named_data(sweep: SweepFile) -> tuple[DataSpec, ...]:
    """All data that a sweep file trains, validates and evaluates on, whether its cells can be expanded or not."""
    catalogue = _catalogue(sweep)
    references = _distinct(cell["training_data"] for cell in _cells(sweep))
    training = [_data(reference, catalogue, role="train") for reference in references]
    validated = [_validation(reference, sweep, catalogue) for reference in references]
    evaluated = [evaluation.spec.data for evaluation in _evaluations(sweep, catalogue)]
    return _distinct([*training, *(validation.data for validation in validated if validation), *evaluated])


def used_checkpoints(sweep: SweepFile) -> Mapping[tuple[str, Role], str]:
    """Family and role of each checkpoint that a cell of the sweep file reads, with its key in the file."""
    catalogue = _catalogue(sweep)
    used: dict[tuple[str, Role], str] = {}
    for cell in _cells(sweep):
        family = catalogue.families[cell["family"].name]
        if role := _role(family, cell["init_regime"]):
            used.setdefault((family.name, role), f"{cell['block']}.family '{family.name}'")
    return used


def _catalogue(sweep: SweepFile) -> _Catalogue:
    data_sets = Registry(
        "data set", [entry.read_from(sweep.data_sources.get(name)) for name, entry in DATA_SETS.items()]
    )
    return _Catalogue(families=FAMILIES.extended(sweep.families), data_sets=data_sets.extended(sweep.data_sets))


def _distinct(items: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


def _blocks(sweep: SweepFile) -> Iterator[tuple[str, Mapping[str, tuple[Any, ...]], Mapping[str, tuple[Any, ...]]]]:
    """(key in the file, named axes, hyperparameter axes) of the axes block and of each include block."""
    base = {name: getattr(sweep.axes, name) for name in _AXES}
    hyper = dict(sweep.axes.hyperparameters)
    yield "axes", base, hyper
    for index, block in enumerate(sweep.include):
        own = {name: getattr(block, name) for name in _AXES if getattr(block, name) is not None}
        yield f"include[{index}]", {**base, **own}, {**hyper, **block.hyperparameters}  # type: ignore[attr-defined]


def _cells(sweep: SweepFile) -> Iterator[dict[str, Any]]:
    """Each combination of axis values, less the excluded ones, with the key of its block."""
    for block, axes, hyper in _blocks(sweep):
        for values in product(*axes.values()):
            cell = dict(zip(axes, values, strict=True)) | {"block": block}
            if any(_matches(cell, excluded) for excluded in sweep.exclude):
                continue
            for settings in product(*hyper.values()):
                yield {**cell, "hyperparameters": dict(zip(hyper, settings, strict=True))}


def _matches(cell: Mapping[str, Any], block: Any) -> bool:
    given = {name: value for name, value in block if value is not None}
    return bool(given) and all(_axis_name(cell[name]) in values for name, values in given.items())


def _axis_name(value: Any) -> Any:
    return value.name if isinstance(value, FamilyChoice) else value


def _pair(cell: Mapping[str, Any]) -> tuple[str, str]:
    return cell["family"].name, cell["init_regime"]


def _role(family: Family, init_regime: str) -> Role | None:
    reads = INIT_REGIMES[init_regime].reads
    roles = ROLES if reads == "any" else (reads,)
    return next((role for role in roles if family.checkpoint(role)), None)


def _checkpoint(family: Family, init_regime: str) -> Checkpoint | None:
    role = _role(family, init_regime)
    return family.checkpoint(role) if role else None


def _left_out(sweep: SweepFile, catalogue: _Catalogue, where: str) -> list[tuple[Problem, CellLeftOut]]:
    wanted = {_pair(cell) for cell in _cells(sweep)}
    found = []
    for key, axes, _ in _blocks(sweep):
        for choice, (index, regime) in product(axes["family"], enumerate(axes["init_regime"])):
            if (choice.name, regime) not in wanted or _checkpoint(catalogue.families[choice.name], regime):
                continue
            reason = f"'{regime}' needs a {INIT_REGIMES[regime].reads} checkpoint, and family '{choice.name}' has none"
            remedy = "declare one, exclude the cell, or write 'missing_checkpoints: leave_out'"
            problem = Problem(where=where, key=f"{key}.init_regime[{index}]", message=f"{reason} ({remedy})")
            found.append((problem, CellLeftOut(family=choice.name, init_regime=regime, reason=reason)))
    return found


def _missing_settings(sweep: SweepFile, where: str) -> Iterator[Problem]:
    for key, _, hyper in _blocks(sweep):
        for name in ("steps", "global_batch", "learning_rate"):
            if getattr(sweep.training, name) is None and name not in hyper:
                hint = "is required, and has no default (or give it as an axis under 'hyperparameters')"
                yield Problem(where=where, key=f"training.{name}" if key == "axes" else f"{key}.{name}", message=hint)


def _untrainable(sweep: SweepFile, catalogue: _Catalogue, where: str) -> Iterator[Problem]:
    for key, axes, _ in _blocks(sweep):
        for index, reference in enumerate(axes["training_data"]):
            name, _, split = reference.partition("/")
            if not split and catalogue.data_sets[name].train_split is None:
                message = f"data set '{name}' names no train split (write {name}/SPLIT to train on one of its splits)"
                yield Problem(where=where, key=f"{key}.training_data[{index}]", message=message)


def _unvalidatable(sweep: SweepFile, catalogue: _Catalogue, where: str) -> Iterator[Problem]:
    if sweep.validation is None:
        return
    given = sweep.validation.data
    references = [given] if given else [ref for _, axes, _ in _blocks(sweep) for ref in axes["training_data"]]
    for reference in references:
        name, _, split = reference.partition("/")
        if not (given and split) and catalogue.data_sets[name].dev_split is None:
            message = f"data set '{name}' names no dev split (write data: NAME/SPLIT to validate on a split of its own)"
            yield Problem(where=where, key="validation.data", message=message)


def _trial(cell: Mapping[str, Any], sweep: SweepFile, catalogue: _Catalogue) -> TrialSpec:
    similarity = SIMILARITIES[cell["similarity"]]
    return TrialSpec(
        kind="train",
        task=cell["task"],
        training_data=_data(cell["training_data"], catalogue, role="train"),
        encoder=_encoder(cell["family"], cell["init_regime"], catalogue),
        similarity=SimilaritySpec(
            name=similarity.name, gamma_q=similarity.gamma_q, gamma_d=similarity.gamma_d, trained=similarity.trained
        ),
        scale=parse_scale(cell["scale"]),
        seed=cell["seed"],
        training=_settings(sweep, cell["hyperparameters"]),
        validation=_validation(cell["training_data"], sweep, catalogue),
        execution=_execution(sweep.resources),
    )


def _execution(resources: ResourcesBlock) -> Execution:
    return Execution(
        threads=resources.threads or resources.cpus,
        device="gpu" if resources.gpus else "cpu",
        num_devices=resources.devices,
        chunk_size=resources.chunk_size,
        torch_compile=resources.torch_compile,
    )


def _validation(training_data: str, sweep: SweepFile, catalogue: _Catalogue) -> ValidationSpec | None:
    block = sweep.validation
    if block is None:
        return None
    return ValidationSpec(
        data=_data(block.data or training_data.partition("/")[0], catalogue, role="dev"),
        every_steps=block.every_steps,
        num_queries=block.num_queries,
        num_documents=block.num_documents,
        patience=block.patience,
    )


def _settings(sweep: SweepFile, hyperparameters: Mapping[str, Any]) -> TrainingSettings:
    given = {f.name: getattr(sweep.training, f.name) for f in fields(TrainingSettings)}
    return TrainingSettings(**{**{k: v for k, v in given.items() if v is not None}, **hyperparameters})


def _encoder(choice: FamilyChoice, init_regime: str, catalogue: _Catalogue) -> EncoderSpec:
    family = catalogue.families[choice.name]
    checkpoint = _checkpoint(family, init_regime)
    assert checkpoint is not None, "cells without their checkpoint were left out before"
    settings = family.settings
    return EncoderSpec(
        family=family.name,
        init_regime=init_regime,
        weights=WeightsSpec(
            source=checkpoint.source, gguf_file=checkpoint.gguf_file, remote_code=checkpoint.remote_code
        ),
        layers=choice.layers,
        towers=choice.towers,
        pooling=settings.pooling,
        append_eos=settings.append_eos,
        query_prompt=settings.query_prompt,
        document_prompt=settings.document_prompt,
        max_query_length=choice.max_query_length or settings.max_query_length,
        max_document_length=choice.max_document_length or settings.max_document_length,
    )


def _data(reference: str, catalogue: _Catalogue, *, role: Literal["train", "dev", "test"]) -> DataSpec:
    name, _, split = reference.partition("/")
    entry = catalogue.data_sets[name]
    by_role = {"train": entry.train_split, "dev": entry.dev_split, "test": entry.test_split}
    return DataSpec(entry=entry, split=split or by_role[role] or "")


def _seed_of_weights(trial: TrialSpec) -> int | None:
    return trial.seed if INIT_REGIMES[trial.encoder.init_regime].seeded else None


def _untrained(trial: TrialSpec) -> TrialSpec:
    return TrialSpec(
        kind="untrained",
        task=trial.task,
        training_data=None,
        encoder=trial.encoder,
        similarity=None,
        scale=None,
        seed=_seed_of_weights(trial),
        training=None,
        execution=trial.execution,
    )


def _probe(trial: TrialSpec, sweep: SweepFile) -> ProbeSpec:
    assert trial.training_data is not None, "probes are made of trained cells"
    assert trial.scale is not None, "probes are made of trained cells"
    return ProbeSpec(
        task=trial.task,
        encoder=trial.encoder,
        seed=_seed_of_weights(trial),
        training_data=trial.training_data,
        scale=trial.scale,
        num_queries=sweep.probe.num_queries,
        candidates_per_query=sweep.probe.candidates_per_query,
        execution=trial.execution,
    )


def _evaluations(sweep: SweepFile, catalogue: _Catalogue) -> tuple[GroupedEvaluation, ...]:
    groups_of: dict[DataSpec, list[str]] = {}
    for group, references in sweep.evaluation.groups.items():
        for reference in references:
            groups_of.setdefault(_data(reference, catalogue, role="test"), []).append(group)
    rag = sweep.evaluation.rag
    read = tuple(_data(reference, catalogue, role="test") for reference in rag.data_sets) if rag else ()
    for data in read:
        groups_of.setdefault(data, [])  # a data set may be there for its questions alone
    return tuple(
        GroupedEvaluation(
            spec=EvaluationSpec(
                data=data,
                score_similarities=sweep.evaluation.score_similarities,
                rag=_rag(rag) if rag and data in read else None,
                keep_embeddings=sweep.evaluation.keep_embeddings,
            ),
            groups=_distinct(groups),
        )
        for data, groups in groups_of.items()
    )


def _rag(block: RagBlock) -> RagSpec:
    reader = block.reader
    weights = WeightsSpec(source=reader.source, gguf_file=reader.gguf_file, remote_code=reader.remote_code)
    return RagSpec(
        reader=ReaderSpec(
            weights=weights,
            precision=reader.precision,
            chat_template=reader.chat_template,
            execution=ReaderExecution(device=reader.device),
        ),
        num_passages=block.num_passages,
        prompt=block.prompt,
        max_input_tokens=block.max_input_tokens,
        max_new_tokens=block.max_new_tokens,
    )
