"""What a sweep file expands to: frozen, self-contained descriptions of trials, probes and evaluations.

A spec can be written to JSON and read back (`to_json`, `from_json`), so that a trial runs alone from its file.
"""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.families import Pooling

Task = Literal["contrastive", "sts"]
TrialKind = Literal["train", "untrained"]
Precision = Literal["fp32", "bf16"]
Schedule = Literal["cosine", "linear", "constant"]


@dataclass(frozen=True, kw_only=True)
class WeightsSpec:
    """Where weights are read. `content_hash` (SHA-256 of the files that define the model) is filled in by planning."""

    source: str
    gguf_file: str | None = None
    content_hash: str | None = None


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """A family resolved under an init regime: all that decides the starting encoder, but the seed."""

    family: str
    init_regime: str
    weights: WeightsSpec
    layers: int | None
    pooling: Pooling
    append_eos: bool
    query_prompt: str
    document_prompt: str
    max_query_length: int
    max_document_length: int


@dataclass(frozen=True, kw_only=True)
class SimilaritySpec:
    """A similarity's exponents; where `trained`, the two values are where training starts."""

    name: str
    gamma_q: float
    gamma_d: float
    trained: bool


@dataclass(frozen=True, kw_only=True)
class ScaleSpec:
    """What scores are multiplied by to give logits (1 / temperature)."""

    mode: Literal["fixed"]
    value: float

    def __str__(self) -> str:
        return f"{self.mode}({self.value:g})"


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """One split of a data set. `content_hash` and `num_pairs` (queries with a relevant document) come from planning."""

    entry: DataSet
    split: str
    content_hash: str | None = None
    num_pairs: int | None = None

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.entry.name


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Every hyperparameter of a training. Learning rates are peaks; lengths are in tokens, special ones counted.

    `global_batch` is the number of pairs in one optimiser step over all devices, hence also of in-batch candidates.
    """

    steps: Annotated[int, Field(gt=0)]
    global_batch: Annotated[int, Field(gt=1)]
    learning_rate: Annotated[float, Field(gt=0, lt=1)]
    gamma_learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.05
    weight_decay: Annotated[float, Field(ge=0, lt=1)] = 0.01
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    schedule: Schedule = "cosine"
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    precision: Precision = "fp32"


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """What Tune runs: a cell with a seed and concrete hyperparameters.

    `kind='untrained'` evaluates the starting encoder: it has no similarity, scale or training settings, and a seed
    only where the regime's weights depend on it. `threads` and `device` do not belong to the identity.
    """

    kind: TrialKind
    task: Task
    training_data: DataSpec | None
    encoder: EncoderSpec
    similarity: SimilaritySpec | None
    scale: ScaleSpec | None
    seed: int | None
    training: TrainingSettings | None
    threads: int = 1
    device: Literal["cpu", "gpu"] = "cpu"

    @property
    def title(self) -> str:
        """A short name for people: 'minilm/finetune/qnorm/s0'."""
        layers = f"-{self.encoder.layers}l" if self.encoder.layers else ""
        similarity = self.similarity.name if self.similarity else self.kind
        seed = "" if self.seed is None else f"/s{self.seed}"
        return f"{self.encoder.family}{layers}/{self.encoder.init_regime}/{similarity}{seed}"


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """What is computed on (family, init regime) before any training: Fisher information and norm statistics."""

    task: Task
    encoder: EncoderSpec
    seed: int | None
    training_data: DataSpec
    scale: ScaleSpec
    num_queries: int
    candidates_per_query: int
    threads: int = 1
    device: Literal["cpu", "gpu"] = "cpu"

    @property
    def title(self) -> str:
        """A short name for people: 'probe minilm/finetune'."""
        layers = f"-{self.encoder.layers}l" if self.encoder.layers else ""
        seed = "" if self.seed is None else f"/s{self.seed}"
        return f"probe {self.encoder.family}{layers}/{self.encoder.init_regime}{seed}"


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """One data set to evaluate every checkpoint of a sweep on.

    `score_similarities`: 'own' scores with the similarity of the checkpoint ('all' for untrained ones), 'all' with
    every similarity of the catalogue that is not trained, and the checkpoint's own.
    """

    data: DataSpec
    score_similarities: Literal["own", "all"] = "own"
    tier: Literal["full"] = "full"
    precision: Precision = "fp32"


Spec = TypeVar("Spec", TrialSpec, ProbeSpec, EvaluationSpec)


def to_json(spec: TrialSpec | ProbeSpec | EvaluationSpec) -> str:
    """The spec as indented JSON."""
    return json.dumps(TypeAdapter(type(spec)).dump_python(spec, mode="json"), indent=2, sort_keys=True) + "\n"


def from_json(kind: type[Spec], text: str | bytes) -> Spec:
    """Read a spec back.

    Raises:
        pydantic.ValidationError: the text is not JSON of that kind.
    """
    return TypeAdapter(kind).validate_json(text)


def with_data_hash(data: DataSpec, *, content_hash: str, num_pairs: int) -> DataSpec:
    """The data with its content hash and number of pairs."""
    return replace(data, content_hash=content_hash, num_pairs=num_pairs)
