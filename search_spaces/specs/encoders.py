"""A family resolved under an init regime: weights, prompts and lengths of a starting encoder."""

from dataclasses import dataclass
from typing import Literal

from search_spaces.catalogue.families import Pooling

INSTRUCTION = "{instruction}"  # its place in a query prompt
Towers = Literal["shared", "separate"]


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
