"""What is left of a plan costs: optimiser steps, tokens, hours of accelerators or CPUs, and storage.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.continuations import steps_made
from orchestrator.plan import Plan
from orchestrator.pool_costs import building, num_searched_at_most
from orchestrator.probe_costs import probe_operations
from orchestrator.row_costs import NOWHERE, MirrorPlace, evaluation_row_bytes, training_row_bytes
from orchestrator.speeds import FORWARD, TRAINING, Speed, Speeds, speeds
from orchestrator.text_lengths import documents_of, queries_of
from results.layout import trial_rows
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Listable
from search_spaces.catalogue.model_sizes import PUBLISHED_SIZES, ModelSize
from search_spaces.catalogue.sources import parse_source
from search_spaces.specs import EncoderSpec, EvaluationSpec, ProbeSpec, TrialSpec, WeightsSpec
from trainers.provenance import accelerators
from trainers.weights.model_size import model_size

_FLOAT32 = 4


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What is left takes.

    Attributes:
        steps: optimiser steps, of samples too; early stopping makes them fewer.
        training_tokens: of these steps, without pads.
        evaluation_tokens: of the texts that checkpoints encode.
        hours: of one GPU, or of one CPU where trials have none: so many of them are busy so long.
        unit: 'GPU' or 'CPU'.
        storage_bytes: that checkpoints, kept embeddings, rows, and MLflow where it lies there, add to the sweep folder.
        row_bytes: of these, what rows and MLflow take.
        passing_bytes: that checkpoints of one running training take meanwhile, beside that.
        parts: what the hours are made of ('training', 'pilots', 'evaluation', each part of probes), and by what speeds
            those of each are known.
        at_most: whether lengths of texts that are not here count as the longest allowed.
        unknown: what is in none of the numbers, with the reason.
    """

    steps: int
    training_tokens: int
    evaluation_tokens: int
    hours: float
    unit: str
    storage_bytes: int
    row_bytes: int
    passing_bytes: int
    parts: tuple["Part", ...]
    at_most: bool
    unknown: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Hours of one kind of work, and by what speeds they are known, in words: measured ones, else FLOPs."""

    what: str
    hours: float
    bases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Training:
    """Trainings that cost the same: one spec stands for `times` of them."""

    spec: TrialSpec
    times: int
    evaluations: tuple[EvaluationSpec, ...]
    is_trained: bool  # evaluated only, or an untrained checkpoint
    steps_made: int = 0  # by trainings that it goes on from
    keeps_weights: bool = True  # those of a search's samples are removed when they have ended
    keeps_rows: bool = True  # what a pool's building reads leaves none


class _Sum:
    """Adds up what trainings take."""

    def __init__(self, plan: Plan, found: Speeds, sizes: Mapping[str, ModelSize | None], mirror: MirrorPlace) -> None:
        self.found, self.sizes, self.mirror = found, sizes, mirror
        self.copies_weights = mirror.holds_rows and plan.sweep.tracking.upload_checkpoints
        resources, probes = plan.sweep.resources, plan.sweep.probe.resources
        self.each = resources.gpus or resources.cpus  # of the unit in which hours are told
        self.each_of_probe = probes.gpus_of(resources) if resources.gpus else probes.cpus_of(resources)
        # What shares a GPU gets a share of its speed: a measured one has that in it.
        self.share = min(1.0, resources.gpus or 1.0)
        self.steps = self.training_tokens = self.evaluation_tokens = 0
        self.storage_bytes = self.row_bytes = self.passing_bytes = 0.0
        self.unit_seconds: dict[str, float] = {}  # by kind of work
        self.bases: dict[str, dict[str, None]] = {}
        self.unknown: dict[str, None] = {}
        self.at_most = False

    def add(self, training: _Training) -> None:
        """Add a training, or what is left of it."""
        size = self.sizes.get(training.spec.encoder.weights.source)
        if size is None:
            self.unknown.setdefault(f"the size of {training.spec.encoder.weights.source} is not known: no hours of it")
        if training.spec.is_trained and not training.is_trained:
            self._add_training(training, size)
        if not training.is_trained:
            self._add_checkpoints(training, size)
        for evaluation in _passes(training.evaluations):
            self._add_evaluation(training, evaluation, size)
        if training.spec.kind == "pilot" and size:
            self._add_pilot_score(training, size)
        if training.keeps_rows:
            self._add_rows(training)

    def add_probe(self, probe: ProbeSpec) -> None:
        """Add a probe, by what it computes; one with a time budget takes at most so long beside its own blocks."""
        size = self.sizes.get(probe.encoder.weights.source)
        if size is None:
            return
        if not self.each_of_probe:
            self.unknown.setdefault("probes run on CPUs alone: no GPU-hours of them")
            return
        speed = self.found.flops(_as_trial(probe), "fp32")
        lengths = (of(probe.training_data, probe.encoder).mean_tokens for of in (queries_of, documents_of))
        query_tokens, document_tokens = lengths
        parts = probe_operations(probe, size, query_tokens=query_tokens, document_tokens=document_tokens)
        share = min(1.0, self.each_of_probe) if probe.execution.device == "gpu" else 1.0
        for part, operations in parts.items():
            seconds = operations / speed.value
            self._add_seconds(f"probes: {part}", seconds, speed, share=share, each=self.each_of_probe)

    def _add_seconds(
        self, what: str, seconds: float, speed: Speed, *, share: float | None = None, each: float | None = None
    ) -> None:
        alone = (seconds if speed.is_measured else seconds / (share or self.share)) * (each or self.each)
        self.unit_seconds[what] = self.unit_seconds.get(what, 0.0) + alone
        self.bases.setdefault(what, {}).setdefault(speed.basis)

    def parts(self) -> tuple[Part, ...]:
        """What the hours are made of."""
        return tuple(
            Part(what=what, hours=seconds / 3600, bases=tuple(self.bases[what]))
            for what, seconds in self.unit_seconds.items()
        )

    def _add_training(self, training: _Training, size: ModelSize | None) -> None:
        spec, settings = training.spec, training.spec.training
        assert settings is not None, "what is trained has settings"
        steps = settings.steps - training.steps_made
        num_pairs = steps * settings.global_batch
        tokens = num_pairs * _pair_tokens(spec.encoder, spec, hard_negatives=settings.hard_negatives)
        self.at_most |= bool(spec.training_data and spec.training_data.content_hash is None)
        self.steps += training.times * steps
        self.training_tokens += round(training.times * tokens)
        devices = training.times * spec.execution.num_devices
        of = "pilots" if spec.kind == "pilot" else "training"
        if measured := self.found.of_shape(spec):
            self._add_seconds(of, devices * num_pairs / measured.value, measured)
        elif size:
            speed = self.found.flops(spec, settings.precision)
            flops = TRAINING * size.parameters_in_layers(spec.encoder.layers) * tokens
            self._add_seconds(of, devices * flops / speed.value, speed)

    def _add_pilot_score(self, training: _Training, size: ModelSize) -> None:
        """Ranking a pool of development documents, once."""
        spec, validation = training.spec, training.spec.validation
        assert validation is not None, "pilots are scored"
        tokens = 0.0
        for of, most in ((documents_of, validation.num_documents), (queries_of, validation.num_queries)):
            found = of(validation.data, spec.encoder)
            known = [number for number in (most, found.num_texts) if number is not None]
            tokens += min(known, default=0) * found.mean_tokens
            self.at_most |= found.at_most
        self.evaluation_tokens += round(training.times * tokens)
        speed = self.found.flops(spec, spec.training.precision if spec.training else "fp32")
        flops = FORWARD * size.parameters_in_layers(spec.encoder.layers) * tokens
        each = speed.value / spec.execution.num_devices
        self._add_seconds("pilots", training.times * flops / each, speed)

    def _add_checkpoints(self, training: _Training, size: ModelSize | None) -> None:
        if size is None:
            return
        encoder = training.spec.encoder
        num_bytes = _FLOAT32 * size.parameters(encoder.layers) * (2 if encoder.towers == "separate" else 1)
        if training.keeps_weights:
            self.storage_bytes += training.times * num_bytes * self._num_copies(training.spec)
        if training.spec.is_trained:
            self.passing_bytes = max(self.passing_bytes, 3 * num_bytes)  # weights and two moments of AdamW

    def _num_copies(self, spec: TrialSpec) -> int:
        """How many times its weights are kept."""
        copies = 2 if spec.validation else 1  # the best, and the last
        if spec.training and spec.training.schedule == "constant":
            copies += 3  # what a training of more steps goes on from
        return copies + self.copies_weights

    def _add_rows(self, training: _Training) -> None:
        spec = training.spec
        num_bytes = 0
        if not training.is_trained:
            steps = spec.training.steps if spec.training else 0
            num_bytes += training_row_bytes(steps, self.mirror)
        for evaluation in training.evaluations:
            num_documents = documents_of(evaluation.data, spec.encoder).num_texts or 0
            num_queries = queries_of(evaluation.data, spec.encoder).num_texts or 0
            num_bytes += evaluation_row_bytes(
                spec,
                evaluation,
                num_documents=num_searched_at_most(evaluation, num_documents, num_queries),
                num_queries=num_queries,
                mirror=self.mirror,
            )
        self.row_bytes += training.times * num_bytes

    def _add_evaluation(self, training: _Training, evaluation: EvaluationSpec, size: ModelSize | None) -> None:
        encoder = training.spec.encoder
        documents, queries = documents_of(evaluation.data, encoder), queries_of(evaluation.data, encoder)
        if documents.num_texts is None:
            self.unknown.setdefault(
                f"how many documents '{evaluation.data.name}' has is not known: no evaluation of it"
            )
        num_searched = num_searched_at_most(evaluation, documents.num_texts or 0, queries.num_texts or 0)
        tokens = num_searched * documents.mean_tokens + queries.tokens
        self.at_most |= documents.at_most or evaluation.tier == "pool"
        self.evaluation_tokens += round(training.times * tokens)
        if evaluation.rag:
            self.unknown.setdefault("answers of the reader are in none of these numbers")
        if size is None:
            return
        if evaluation.keep_embeddings:
            self.storage_bytes += training.times * 2 * size.hidden_size * num_searched
        speed = self.found.flops(training.spec, evaluation.precision)
        each = speed.value / training.spec.execution.num_devices  # an evaluation takes one device
        flops = FORWARD * size.parameters_in_layers(encoder.layers) * tokens
        self._add_seconds("evaluation", training.times * flops / each, speed)


def costs(plan: Plan, store: Listable | None, mirror: MirrorPlace = NOWHERE) -> Costs:
    """What is left of a plan, or of the part of it that was asked for, costs; `mirror` is where MLflow shows it."""
    trainings, probes = list(_trainings(plan, store)), list(_probes(plan))
    encoders = {t.spec.encoder for t in trainings} | {p.encoder for p in probes} | {t.spec.encoder for t in plan.trials}
    sizes = _sizes(encoder.weights for encoder in encoders)
    resources = plan.sweep.resources
    gpu = resources.accelerator_type or next(iter(accelerators()), None)
    total = _Sum(plan, speeds(_finished_rows(plan, store), sizes, gpu), sizes, mirror)
    for training in trainings:
        total.add(training)
    for probe in probes:
        total.add_probe(probe)
    return Costs(
        steps=total.steps,
        training_tokens=total.training_tokens,
        evaluation_tokens=total.evaluation_tokens,
        hours=sum(total.unit_seconds.values()) / 3600,
        unit="GPU" if resources.gpus else "CPU",
        storage_bytes=round(total.storage_bytes + total.row_bytes),
        row_bytes=round(total.row_bytes),
        passing_bytes=round(total.passing_bytes),
        parts=total.parts(),
        at_most=total.at_most,
        unknown=tuple(total.unknown),
    )


def _trainings(plan: Plan, store: Listable | None) -> Iterator[_Training]:
    evaluations = tuple(e.spec for e in plan.evaluations)
    made = steps_made({t.trial_id: t.spec for t in plan.trials_left if t.state != "to evaluate"}, store)
    for trial in plan.trials_left:
        yield _Training(
            spec=trial.spec,
            times=1,
            evaluations=trial.evaluations_left,
            is_trained=trial.state == "to evaluate",
            steps_made=made.get(trial.trial_id, 0),
            keeps_weights=trial.spec.kind != "pilot",
        )
    for spec in filter(plan.only.takes, plan.unidentified.trials):
        is_pilot = spec.kind == "pilot"
        asked = () if is_pilot else evaluations
        yield _Training(spec=spec, times=1, evaluations=asked, is_trained=False, keeps_weights=not is_pilot)
    for contributor, corpora in building(plan):
        yield _Training(spec=contributor, times=1, evaluations=corpora, is_trained=True, keeps_rows=False)
    for study in plan.studies_left:
        # Samples are validated as they train, and evaluated on nothing else.
        cell = study.cell
        yield _Training(spec=cell.tuning, times=study.num_left, evaluations=(), is_trained=False, keeps_weights=False)
        for spec in filter(plan.only.takes, cell.reporting):
            yield _Training(spec=spec, times=1, evaluations=evaluations, is_trained=False)


def _probes(plan: Plan) -> Iterator[ProbeSpec]:
    yield from (probe.spec for probe in plan.probes_left)
    yield from filter(plan.only.takes, plan.unidentified.probes)


def _finished_rows(plan: Plan, store: Listable | None) -> Iterator[Mapping[str, object]]:
    """The rows of the sweep's trained trials, as far as this version wrote them."""
    for trial in plan.trials:
        if store is not None and trial.spec.kind == "train" and trial.state in ("finished", "to evaluate"):
            try:
                yield from read_rows(store, trial_rows(trial.trial_id), "trials").to_pylist()
            except SchemaError:
                continue


def _sizes(weights: Iterable[WeightsSpec]) -> dict[str, ModelSize | None]:
    """By source the size of each model: of its files where they are here, else as published."""
    return {spec.source: _size(spec) for spec in weights}


def _size(weights: WeightsSpec) -> ModelSize | None:
    if weights.content_hash is not None:
        return model_size(weights, weights.content_hash)
    published = PUBLISHED_SIZES.get(parse_source(weights.source).location)
    return published.size if published else None


def _passes(evaluations: Iterable[EvaluationSpec]) -> Iterator[EvaluationSpec]:
    """The evaluations, one for each corpus: what several data sets, or a pool, share is encoded once."""
    corpora: dict[tuple[Any, ...], EvaluationSpec] = {}
    for evaluation in sorted(evaluations, key=lambda e: e.tier == "pool"):
        entry = evaluation.data.entry
        corpora.setdefault((entry.corpus_source or entry.source, entry.config, entry.cut, entry.reader), evaluation)
    yield from corpora.values()


def _pair_tokens(encoder: EncoderSpec, spec: TrialSpec | ProbeSpec, *, hard_negatives: int = 0) -> float:
    assert spec.training_data is not None, "what is trained has data"
    documents = documents_of(spec.training_data, encoder).mean_tokens
    return queries_of(spec.training_data, encoder).mean_tokens + documents * (1 + hard_negatives)


def _as_trial(probe: ProbeSpec) -> TrialSpec:
    """A trial that runs where a probe does."""
    return TrialSpec(
        kind="untrained",
        task=probe.task,
        training_data=None,
        encoder=probe.encoder,
        similarity=None,
        scale=None,
        seed=None,
        training=None,
        execution=probe.execution,
    )
