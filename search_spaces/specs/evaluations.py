"""One data set to evaluate checkpoints on: the whole corpus or a pool, and a reader that answers."""

from dataclasses import dataclass, replace
from typing import Literal

from search_spaces.specs.data import DataSpec
from search_spaces.specs.encoders import EncoderSpec, StartingEncoder, WeightsSpec
from search_spaces.specs.execution import Execution, Precision

Tier = Literal["full", "pool"]


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
