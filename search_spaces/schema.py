"""The sweep file's schema: strict, with every name checked against the catalogue and the file's own declarations."""

import math
import re
from dataclasses import fields
from typing import Annotated, Any, Literal, Optional, TypeVar, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from search_spaces.catalogue.data_sets import DATA_SETS, PARTS, DataSet
from search_spaces.catalogue.families import FAMILIES, Family, SourceText, WeightsSourceText, checked_pinned
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.groups import written_out
from search_spaces.problems import unknown_name
from search_spaces.specs import MAX_SEED, Precision, ScaleSpec, Task, Towers, TrainingSettings

_SCALE = re.compile(r"(?P<mode>fixed|matched)\((?P<value>[0-9]+(\.[0-9]+)?)\)")
_MATCHED = "matched(20)"  # the study's scale, where norms are divided out
FLAN_T5_LARGE = "hf:google/flan-t5-large@0613663d0d48ea86ba8cb3d7a44f0f65dc596a2a"  # Apache-2.0; the study's reader
PLACES = ("{passages}", "{question}")  # of a reader's prompt
_SWEEP_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
Item = TypeVar("Item")


class Block(BaseModel):
    """A block of the sweep file: an unknown key is an error, and so is a value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def parse_scale(text: str) -> ScaleSpec:
    """Read 'fixed(20)', 'matched(20)' or 'matched', which is the same: see `ScaleSpec`."""
    match = _SCALE.fullmatch(_MATCHED if text == "matched" else text)
    if match is None or not 0 < float(match["value"]) < math.inf:
        hint = "write fixed(20), for logits of 20 times the score, or matched, for logits that start alike"
        raise ValueError(f"'{text}' is not a scale ({hint})")
    return ScaleSpec(mode="fixed" if match["mode"] == "fixed" else "matched", value=float(match["value"]))


def _known(kind: str, names: tuple[str, ...]) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        declared = tuple((info.context or {}).get(kind, ()))
        name = value.partition("/")[0] if kind == "data set" else value
        if name not in names and name not in declared:
            raise ValueError(unknown_name(kind, name, [*names, *declared]))
        return value

    return AfterValidator(check)


def _catalogue_name(name: str) -> str:
    if name not in DATA_SETS:
        whole = f" (name its parts: {', '.join(PARTS[name])})" if name in PARTS else ""
        raise ValueError(unknown_name("data set of the catalogue", name, list(DATA_SETS)) + whole)
    return name


def _scale(text: str) -> str:
    parse_scale(text)
    return text


SimilarityName = Annotated[str, _known("similarity", tuple(SIMILARITIES))]
RegimeName = Annotated[str, _known("init regime", tuple(INIT_REGIMES))]
FamilyName = Annotated[str, _known("family", tuple(FAMILIES))]
DataSetRef = Annotated[str, _known("data set", tuple(DATA_SETS))]  # NAME or NAME/SPLIT
DataSetName = Annotated[str, AfterValidator(_catalogue_name)]
# Group names stand in paths, MLflow metrics and papers.
GroupName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
ScaleText = Annotated[str, AfterValidator(_scale)]


class FamilyChoice(Block):
    """A family with what this sweep changes of it: the first N layers only, two towers, or shorter texts (tokens)."""

    name: FamilyName
    layers: int | None = Field(default=None, gt=0)
    towers: Towers = "shared"
    max_query_length: int | None = Field(default=None, gt=0)
    max_document_length: int | None = Field(default=None, gt=0)


def _as_choice(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _no_duplicates(values: tuple[Item, ...]) -> tuple[Item, ...]:
    seen: list[Item] = []
    for value in values:
        if value in seen:
            raise ValueError(f"{value!r} stands twice")
        seen.append(value)
    if not seen:
        raise ValueError("an axis without values")
    return values


def _axis(item: Any) -> Any:
    return Annotated[tuple[item, ...], BeforeValidator(_as_tuple), AfterValidator(_no_duplicates)]


# The hyperparameters' types, ranges and defaults stand once, in TrainingSettings.
_HINTS = get_type_hints(TrainingSettings, include_extras=True)
_PARTIAL: dict[str, Any] = {field.name: (_HINTS[field.name] | None, None) for field in fields(TrainingSettings)}
TrainingBlock: type[Block] = create_model("TrainingBlock", __base__=Block, **_PARTIAL)


def _checked_hyperparameters(axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    faults = []
    checked: dict[str, tuple[Any, ...]] = {}
    for name, values in axes.items():
        if name not in _HINTS:
            faults.append(unknown_name("hyperparameter", name, list(_HINTS)))
            continue
        for value in values:
            try:  # what is validated is kept: 1 for a float is 1.0, and has one identity
                checked[name] = (*checked.get(name, ()), TypeAdapter(_HINTS[name]).validate_python(value, strict=True))
            except ValidationError as error:
                faults.append(f"{name}: {value!r}: {error.errors()[0]['msg']}")
    if faults:
        raise ValueError("; ".join(faults))
    return checked


_HyperparameterAxes: Any = Annotated[dict[str, _axis(Any)], AfterValidator(_checked_hyperparameters)]  # type: ignore[misc]


class Axes(Block):
    """The axes that are crossed. Each is one value or a list; `hyperparameters` adds any of the training settings."""

    task: _axis(Task)  # type: ignore[valid-type]
    training_data: _axis(DataSetRef)  # type: ignore[valid-type]
    family: _axis(Annotated[FamilyChoice, BeforeValidator(_as_choice)])  # type: ignore[valid-type]
    similarity: _axis(SimilarityName)  # type: ignore[valid-type]
    init_regime: _axis(RegimeName)  # type: ignore[valid-type]
    seed: _axis(Annotated[int, Field(ge=0, le=MAX_SEED)])  # type: ignore[valid-type]
    scale: _axis(ScaleText)  # type: ignore[valid-type]
    hyperparameters: _HyperparameterAxes = {}


_OPTIONAL_AXES: dict[str, Any] = {
    name: (Annotated[Optional[field.annotation], *field.metadata], None)  # noqa: UP045 - a type known at run time only
    for name, field in Axes.model_fields.items()
    if name != "hyperparameters"
}
IncludeBlock: type[Block] = create_model(
    "IncludeBlock", __base__=Block, **_OPTIONAL_AXES, hyperparameters=(_HyperparameterAxes, {})
)


class ExcludeBlock(Block):
    """Cells to leave away: those that match every axis named here."""

    training_data: _axis(DataSetRef) | None = None  # type: ignore[valid-type]
    family: _axis(FamilyName) | None = None  # type: ignore[valid-type]
    similarity: _axis(SimilarityName) | None = None  # type: ignore[valid-type]
    init_regime: _axis(RegimeName) | None = None  # type: ignore[valid-type]
    seed: _axis(int) | None = None  # type: ignore[valid-type]


class ReaderBlock(Block):
    """The language model that answers questions from passages; see `ReaderSpec`.

    A Hugging Face id with its revision, a `path:` or a `package:` source, as weights of families are.
    """

    source: WeightsSourceText = FLAN_T5_LARGE
    gguf_file: str | None = None
    remote_code: bool = False
    precision: Precision = "fp32"
    chat_template: bool = False
    device: Literal["trial", "cpu"] = "trial"


def _checked_prompt(prompt: str) -> str:
    for place in PLACES:
        if prompt.count(place) != 1:
            stands = "stands twice or more" if place in prompt else "is missing"
            raise ValueError(f"{place} {stands}: a prompt has {' and '.join(PLACES)}, once each")
    return prompt


class RagBlock(Block):
    """Questions answered from what each checkpoint finds; see `RagSpec`. `data_sets` are NAME or NAME/SPLIT."""

    data_sets: _axis(DataSetRef)  # type: ignore[valid-type]
    reader: ReaderBlock = ReaderBlock()
    num_passages: int = Field(default=5, gt=0, le=100)
    prompt: Annotated[str, AfterValidator(_checked_prompt)] = (
        "Answer the question in a few words, from these passages.\n\n{passages}\n\nQuestion: {question}\nAnswer:"
    )
    max_input_tokens: int = Field(default=1024, gt=0)
    max_new_tokens: int = Field(default=32, gt=0)


def _written_out(groups: Any, info: ValidationInfo) -> Any:
    return written_out(groups, (info.context or {}).get("groups", {}))


_Groups: Any = Annotated[
    dict[GroupName, _axis(DataSetRef)],  # type: ignore[misc]
    Field(min_length=1),
    BeforeValidator(_written_out),
]


class EvaluationBlock(Block):
    """What every checkpoint is evaluated on: groups of data sets, each NAME or NAME/SPLIT.

    A default group of the catalogue may stand without a list, as 'beir: all'; see `search_spaces.groups`.

    `primary_groups`: their unweighted mean decides which of qnorm and dnorm won (default: all but `in_domain`).
    `rag`: on which of these data sets, or of others, questions are also answered.
    `keep_embeddings`: keep them in the sweep folder, as unit directions in fp16 and norms; else only norms are kept.
    """

    groups: _Groups
    score_similarities: Literal["own", "all"] = "own"
    rag: RagBlock | None = None
    primary_groups: tuple[str, ...] | None = None
    keep_embeddings: bool = False

    @field_validator("primary_groups")
    @classmethod
    def _are_groups(cls, value: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        groups = list(info.data.get("groups", {}))
        for name in value or ():
            if groups and name not in groups:
                raise ValueError(unknown_name("group of this file", name, groups))
        return value


class ValidationBlock(Block):
    """When and on what a training is validated, to keep its best checkpoint; see `ValidationSpec`.

    `data` is NAME/SPLIT, by default the development split of each training data set.
    """

    data: DataSetRef | None = None
    every_steps: int = Field(gt=0)
    num_queries: int | None = Field(default=500, gt=0)
    num_documents: int | None = Field(default=5000, gt=0)
    patience: int | None = Field(default=None, gt=0)


class ProbeBlock(Block):
    """How many training queries a probe reads, and how many candidates each is held against."""

    num_queries: int = Field(default=1024, gt=1)
    candidates_per_query: int = Field(default=64, gt=1)


class ResourcesBlock(Block):
    """What one trial is given, and how often a trial whose worker died is tried again.

    `at_once` caps how many trials and probes run together (default: as many as fit the machine's CPUs and GPUs).
    `threads` are the computing threads of a trial (default: one per CPU asked for).
    `stop_after_failures`: a sweep whose first so many trials all fail stops.
    `devices`: how many processes train one trial together, each with the CPUs and GPUs named here.
    `chunk_size` and `torch_compile`: see `Execution`.
    """

    cpus: int = Field(default=1, gt=0)
    gpus: float = Field(default=0, ge=0, allow_inf_nan=False)
    at_once: int | None = Field(default=None, gt=0)
    threads: int | None = Field(default=None, gt=0)
    retries: int = Field(default=1, ge=0)
    stop_after_failures: int = Field(default=5, gt=0)
    devices: int = Field(default=1, gt=0)
    chunk_size: Annotated[int, Field(gt=0)] | Literal["auto"] | None = "auto"
    torch_compile: bool = False


class CheckpointsBlock(Block):
    """When a training writes a checkpoint to resume from: every so many steps, or seconds, whichever comes first."""

    every_steps: int | None = Field(default=None, gt=0)
    every_s: float | None = Field(default=60.0, gt=0, allow_inf_nan=False)


class TrackingBlock(Block):
    """The MLflow tracking server; without one, SQLite in the sweep folder."""

    uri: str | None = None


class SweepFile(Block):
    """A whole sweep file."""

    name: str
    storage: str | None = None
    families: tuple[Family, ...] = ()
    data_sets: tuple[DataSet, ...] = ()
    data_sources: dict[DataSetName, SourceText] = {}  # sets of the catalogue that are read from another place
    axes: Axes
    include: tuple[IncludeBlock, ...] = ()  # type: ignore[valid-type]
    exclude: tuple[ExcludeBlock, ...] = ()
    missing_checkpoints: Literal["refuse", "leave_out"] = "refuse"
    allow_asymmetric: bool = False  # similarities with s(a, b) != s(b, a) on a symmetric task
    training: TrainingBlock  # type: ignore[valid-type]
    validation: ValidationBlock | None = None
    evaluation: EvaluationBlock
    probe: ProbeBlock = ProbeBlock()
    resources: ResourcesBlock = ResourcesBlock()
    checkpoints: CheckpointsBlock = CheckpointsBlock()
    tracking: TrackingBlock = TrackingBlock()

    @field_validator("data_sets")
    @classmethod
    def _are_pinned(cls, value: tuple[DataSet, ...]) -> tuple[DataSet, ...]:
        for entry in value:
            checked_pinned(entry.source)
        return value

    @field_validator("name")
    @classmethod
    def _name_stands_in_paths(cls, value: str) -> str:
        if not _SWEEP_NAME.fullmatch(value):
            raise ValueError(f"'{value}' is not a sweep name (lower-case letters, digits, '-' and '_')")
        return value
