"""What a sweep file expands to: frozen, self-contained descriptions of trials, probes and evaluations.

A spec can be written to JSON and read back (`to_json`, `from_json`), so that a trial runs alone from its file.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.families import Pooling
from search_spaces.records import read_json

INSTRUCTION = "{instruction}"  # its place in a query prompt
MAX_SEED = 2**63 - 1  # of what is drawn by it, torch's generators take no more

Task = Literal["contrastive", "sts"]
Towers = Literal["shared", "separate"]
TrialKind = Literal["train", "pilot", "untrained"]
Precision = Literal["fp32", "bf16"]
Schedule = Literal["cosine", "linear", "constant"]
LossDirections = Literal["query_to_document", "both"]
Tier = Literal["full", "pool"]
FisherBlock = Literal["embedding", "gamma", "head", "weights"]


@dataclass(frozen=True, kw_only=True)
class WeightsSpec:
    """Where weights are read. `content_hash` (SHA-256 of the files that define the model) is filled in by planning.

    Code that comes with a model runs only with `remote_code`.
    """

    source: str
    gguf_file: str | None = None
    content_hash: str | None = None
    remote_code: bool = False


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """A family resolved under an init regime: all that decides the starting encoder, but the seed.

    `towers`: one encoder for both sides, or one for each, which start from the same weights (drawn ones: each from a
    draw of its own) and train apart.

    An instructed encoder's `query_prompt` has a place `{instruction}`, which takes what the data set says of its
    queries, or `instruction` where it says nothing.
    """

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
    towers: Towers = "shared"
    instruction: str | None = None

    @property
    def is_instructed(self) -> bool:
        """Whether its queries are told what they ask for."""
        return INSTRUCTION in self.query_prompt

    def query_prompt_for(self, instruction: str | None) -> str:
        """What stands before a query of a data set that has this instruction, or none."""
        return self.query_prompt.replace(INSTRUCTION, instruction or self.instruction or "")


@dataclass(frozen=True, kw_only=True)
class SimilaritySpec:
    """A similarity's exponents; where `trained`, the two values are where training starts."""

    name: str
    gamma_q: float
    gamma_d: float
    trained: bool


@dataclass(frozen=True, kw_only=True)
class ScaleSpec:
    """What scores are multiplied by to give logits (1 / temperature).

    'fixed': `value`, whatever the similarity. 'matched': `value / divisor`, where the divisor is the starting encoder's
    mean |q|^(1-gamma_q) * |d|^(1-gamma_d) over training texts, so that logits start alike under every similarity; it is
    found once, before training, and stored in the checkpoint: a spec that was not trained yet has none.
    """

    mode: Literal["fixed", "matched"]
    value: float
    divisor: float | None = None

    @property
    def factor(self) -> float:
        """The multiplier itself. Raises ValueError where a matched scale has no divisor yet."""
        if self.mode == "fixed":
            return self.value
        if self.divisor is None:
            raise ValueError("a matched scale has no factor before its divisor is found")
        return self.value / self.divisor

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


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return value


def _finite_norm(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number (write a large one, such as 1e9, where nothing is to be cut)")
    return value


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Every hyperparameter of a training. Learning rates are peaks; lengths are in tokens, special ones counted.

    `global_batch` is the number of pairs in one optimiser step over all devices, hence also of in-batch candidates.
    `hard_negatives` is how many of its own a query brings. `loss_directions`: InfoNCE over documents for each query, or
    the mean of that and of InfoNCE over queries for each positive. With a `lora_rank` only low-rank adapters are
    trained (arXiv 2106.09685), else all weights.
    """

    steps: Annotated[int, Field(gt=0)]
    global_batch: Annotated[int, Field(gt=1)]
    learning_rate: Annotated[float, Field(gt=0, lt=1)]
    gamma_learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.05
    weight_decay: Annotated[float, Field(ge=0, lt=1)] = 0.01
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    epsilon: Annotated[float, Field(gt=0), AfterValidator(_finite)] = 1e-8
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    schedule: Schedule = "cosine"
    clip_norm: Annotated[float, Field(gt=0), AfterValidator(_finite_norm)] = 1.0
    precision: Precision = "fp32"
    hard_negatives: Annotated[int, Field(ge=0)] = 0
    loss_directions: LossDirections = "query_to_document"
    lora_rank: Annotated[int, Field(gt=0)] | None = None
    lora_alpha: Annotated[float, Field(gt=0), AfterValidator(_finite)] = 16.0
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


@dataclass(frozen=True, kw_only=True)
class ValidationSpec:
    """Every `every_steps` steps the trial ranks a pool of a development split; the best checkpoint is the trial's.

    The pool is the documents judged for the queries and others up to `num_documents`; both are chosen by content hash.
    None is all there are. Training ends early where `patience` validations in a row were no better than the best.
    """

    data: DataSpec
    every_steps: int
    num_queries: int | None = None
    num_documents: int | None = None
    patience: int | None = None


@dataclass(frozen=True, kw_only=True)
class Execution:
    """On what a trial or probe runs, and how it fits: no part of an identity.

    `threads` and `device` are those of each of its `num_devices` processes. `chunk_size`: the graphs of how many
    texts of a batch are held at a time (GradCache, arXiv 2101.06983), at least one chunk's; 'auto' holds as many as fit
    the memory, None all. It changes no bit of a training.
    """

    threads: int = 1
    device: Literal["cpu", "gpu"] = "cpu"
    num_devices: int = 1
    chunk_size: int | Literal["auto"] | None = "auto"
    torch_compile: bool = False


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """What Tune runs: a cell with a seed and concrete hyperparameters.

    `kind='untrained'` evaluates the starting encoder: it has no similarity, scale or training settings, and a seed
    only where the regime's weights depend on it. `kind='pilot'` is trained for a few steps, scored query by query on
    `validation` when it has ended, and evaluated on nothing: it reports nothing, and only predictors read it.

    `log_kappa_every`: each so many steps the history has log10 kappa of the batch's Fisher information. It changes no
    bit of a checkpoint and is no part of the identity: what was trained without it is not trained again.
    """

    kind: TrialKind
    task: Task
    training_data: DataSpec | None
    encoder: EncoderSpec
    similarity: SimilaritySpec | None
    scale: ScaleSpec | None
    seed: int | None
    training: TrainingSettings | None
    validation: ValidationSpec | None = None
    execution: Execution = Execution()
    log_kappa_every: int | None = None

    @property
    def title(self) -> str:
        """A short name for people: 'minilm/finetune/qnorm/s0', with its scale where that is a matched one."""
        pilot = "pilot " if self.kind == "pilot" else ""
        layers = f"-{self.encoder.layers}l" if self.encoder.layers else ""
        similarity = self.similarity.name if self.similarity else self.kind
        seed = "" if self.seed is None else f"/s{self.seed}"
        cell = f"{self.encoder.family}{layers}/{self.encoder.init_regime}/{similarity}"
        return f"{pilot}{cell}{_if_matched(self.scale)}{seed}"

    @property
    def is_trained(self) -> bool:
        """Whether it takes a training: a pilot does."""
        return self.kind != "untrained"

    @property
    def num_negatives(self) -> int | None:
        """In-batch and hard negatives of a query, masked ones counted; None where a task has none, or no training."""
        if self.training is None or self.task != "contrastive":
            return None
        return self.training.global_batch * (1 + self.training.hard_negatives) - 1


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """What is computed on (family, init regime) before any training: Fisher information and norm statistics.

    Block 'embedding' is always there; 'head' reads whole pools of `head_queries` queries at most, and 'weights' of
    `weights_queries`, over the weights of the last `weights_layers` layers (None: all). With `empirical` each block has
    the empirical Fisher information, of the observed labels, beside its own. With a `time_budget_s` pools are read
    until intervals are narrow or the next ones would take longer, `num_queries` at most.
    """

    task: Task
    encoder: EncoderSpec
    seed: int | None
    training_data: DataSpec
    scale: ScaleSpec
    num_queries: int
    candidates_per_query: int
    blocks: tuple[FisherBlock, ...] = ("embedding", "gamma")
    empirical: bool = False
    head_queries: int = 512
    weights_queries: int = 64
    weights_layers: int | None = None
    time_budget_s: float | None = None
    execution: Execution = Execution()

    @property
    def title(self) -> str:
        """A short name for people: 'probe minilm/finetune', with its scale where that is a matched one."""
        layers = f"-{self.encoder.layers}l" if self.encoder.layers else ""
        seed = "" if self.seed is None else f"/s{self.seed}"
        return f"probe {self.encoder.family}{layers}/{self.encoder.init_regime}{_if_matched(self.scale)}{seed}"


def _if_matched(scale: ScaleSpec | None) -> str:
    return f"/{scale}" if scale and scale.mode == "matched" else ""


@dataclass(frozen=True, kw_only=True)
class ReaderExecution:
    """On what a reader runs: the trial's device, or the CPU where that has no room for it. No part of an identity."""

    device: Literal["trial", "cpu"] = "trial"


@dataclass(frozen=True, kw_only=True)
class ReaderSpec:
    """A language model that reads passages and writes an answer: an encoder with a decoder, or a causal one.

    With `chat_template` the prompt is a user's message, put into the model's own form of a conversation.
    """

    weights: WeightsSpec
    precision: Precision = "fp32"
    chat_template: bool = False
    execution: ReaderExecution = ReaderExecution()

    @property
    def name(self) -> str:
        """A short name for people, without revision or folders: 'google/flan-t5-large'."""
        scheme, _, location = self.weights.source.partition(":")
        location = location.partition("@")[0] if scheme == "hf" else location.rstrip("/").rpartition("/")[2]
        return "/".join(filter(None, (location, self.weights.gguf_file)))


@dataclass(frozen=True, kw_only=True)
class RagSpec:
    """How questions are answered from what a checkpoint finds: its first `num_passages` passages, read by `reader`.

    `prompt` holds {passages} and {question}. Where it is longer than `max_input_tokens` of the reader's tokens, the
    longest passages are shortened. Decoding is greedy, of at most `max_new_tokens`, and the answer its first line.
    """

    reader: ReaderSpec
    num_passages: int
    prompt: str
    max_input_tokens: int
    max_new_tokens: int


@dataclass(frozen=True, kw_only=True)
class StartingEncoder:
    """An encoder before any training: what a trial starts from. The seed is there where the regime draws weights."""

    encoder: EncoderSpec
    seed: int | None

    @property
    def title(self) -> str:
        """A short name for people: 'minilm-3l/random/s0'."""
        layers = f"-{self.encoder.layers}l" if self.encoder.layers else ""
        seed = "" if self.seed is None else f"/s{self.seed}"
        return f"{self.encoder.family}{layers}/{self.encoder.init_regime}{seed}"


@dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """How many documents each source gives to a pool; judged ones are all in it.

    `bm25_top` and `per_similarity_top` are the best documents for each query, under BM25 and under every fixed
    similarity with each starting encoder. `longest` are those of the largest norm under each of these. `random` are
    drawn from the whole corpus by `seed`.
    """

    bm25_top: int = 20
    per_similarity_top: int = 20
    longest: int = 100
    random: int = 500
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """The part of a corpus that checkpoints are evaluated on. Every starting encoder of the sweep contributes to it."""

    settings: PoolSettings
    encoders: tuple[StartingEncoder, ...] = ()  # filled in when trials are expanded
    execution: Execution = Execution()


@dataclass(frozen=True, kw_only=True)
class EvaluationSpec:
    """One data set to evaluate every checkpoint of a sweep on.

    `score_similarities`: 'own' scores with the similarity of the checkpoint ('all' for untrained ones), 'all' with
    every similarity of the catalogue that is not trained, and the checkpoint's own. With `rag`, the questions that the
    data set has answers to are also answered. With `keep_embeddings` they stay in the sweep folder, and with
    `run_files` so does each ranking, as a TREC run file.

    `instruction` is what an instructed encoder is told of the queries; it stands in no evaluation of any other encoder
    (`evaluation_for`). What is kept, and the memory that a search may take (`memory_budget_bytes`, by default what is
    fast), change no number and are no part of an identity.

    Tier 'pool' searches the documents of `pool` alone, tier 'full' the whole corpus.
    """

    data: DataSpec
    score_similarities: Literal["own", "all"] = "own"
    tier: Tier = "full"
    precision: Precision = "fp32"
    rag: RagSpec | None = None
    instruction: str | None = None
    keep_embeddings: bool = False
    run_files: bool = False
    memory_budget_bytes: int | None = None
    pool: PoolSpec | None = None

    def __post_init__(self) -> None:
        if (self.tier == "pool") != (self.pool is not None):
            raise ValueError(f"tier '{self.tier}' {'lacks' if self.tier == 'pool' else 'has'} a pool")

    @property
    def keeps_runs(self) -> bool:
        """Whether run files are kept of it: scored pairs have no rankings."""
        return self.run_files and not self.data.entry.is_scored

    @property
    def whole(self) -> "EvaluationSpec":
        """The same evaluation over the whole corpus."""
        return replace(self, tier="full", pool=None)


def evaluation_for(encoder: EncoderSpec, evaluation: EvaluationSpec) -> EvaluationSpec:
    """An evaluation of the sweep as a checkpoint of this encoder has it: with an instruction only if it reads one."""
    return replace(evaluation, instruction=evaluation.data.entry.instruction if encoder.is_instructed else None)


Spec = TypeVar("Spec", TrialSpec, ProbeSpec, EvaluationSpec)
# Made once: making one takes longer than what it does.
_SPECS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (TrialSpec, ProbeSpec, EvaluationSpec)}
_NAMES: Mapping[type, str] = {TrialSpec: "a trial's spec", ProbeSpec: "a probe's spec", EvaluationSpec: "a pool's spec"}


def to_json(spec: TrialSpec | ProbeSpec | EvaluationSpec) -> str:
    """The spec as indented JSON."""
    return json.dumps(_SPECS[type(spec)].dump_python(spec, mode="json"), indent=2, sort_keys=True) + "\n"


def from_json(kind: type[Spec], text: str | bytes) -> Spec:
    """Read a spec back.

    Raises:
        UnreadableError: the text is not JSON of that kind.
    """
    return read_json(_SPECS[kind], text, _NAMES[kind])


def with_data_hash(data: DataSpec, *, content_hash: str, num_pairs: int) -> DataSpec:
    """The data with its content hash and number of pairs."""
    return replace(data, content_hash=content_hash, num_pairs=num_pairs)
