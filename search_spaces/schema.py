"""The sweep file's schema: strict, with every name checked against the catalogue and the file's own declarations."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from search_spaces.axes import Axes, ExcludeBlock, IncludeBlock, Zip
from search_spaces.blocks import Block, Bytes, DataSetName, DataSetRef, GroupName, Or, axis, different
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.families import Family, SourceText, WeightsSourceText, checked_pinned
from search_spaces.cluster_block import ClusterBlock
from search_spaces.groups import named_questions, written_out
from search_spaces.hyperparameters import TrainingBlock
from search_spaces.problems import unknown_name
from search_spaces.specs import MAX_SEED, FisherBlock, PoolSettings, Precision, Tier
from search_spaces.tune_block import TuneBlock

FLAN_T5_LARGE = "hf:google/flan-t5-large@0613663d0d48ea86ba8cb3d7a44f0f65dc596a2a"  # Apache-2.0; the study's reader
PLACES = ("{passages}", "{question}")  # of a reader's prompt
_SWEEP_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_LEAST_SHARE = 1e-4  # in Ray's reckoning
_SHARE = re.compile(r"1/(?P<parts>[1-9][0-9]*)")


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
    """Questions answered from what each checkpoint finds; see `RagSpec`.

    `data_sets` are NAME or NAME/SPLIT, or a default group: 'qa'.
    """

    data_sets: Annotated[axis(DataSetRef), BeforeValidator(named_questions)]  # type: ignore[valid-type]
    reader: ReaderBlock = ReaderBlock()
    num_passages: int = Field(default=5, gt=0, le=100)
    prompt: Annotated[str, AfterValidator(_checked_prompt)] = (
        "Answer the question in a few words, from these passages.\n\n{passages}\n\nQuestion: {question}\nAnswer:"
    )
    max_input_tokens: int = Field(default=1024, gt=0)
    max_new_tokens: int = Field(default=32, gt=0)


def _written_out(groups: Any, info: ValidationInfo) -> Any:
    known = info.context or {}
    return written_out(groups, known.get("groups", {}), known.get("parts", {}))


_Groups: Any = Annotated[
    dict[GroupName, axis(DataSetRef)],  # type: ignore[misc]
    Field(min_length=1),
    BeforeValidator(_written_out),
    Or({"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "object"}),
]


class PoolBlock(Block):
    """How many documents each source gives to a pool; see `PoolSettings`."""

    bm25_top: int = Field(default=PoolSettings.bm25_top, ge=0)
    per_similarity_top: int = Field(default=PoolSettings.per_similarity_top, ge=0)
    longest: int = Field(default=PoolSettings.longest, ge=0)
    random: int = Field(default=PoolSettings.random, ge=0)
    seed: int = Field(default=PoolSettings.seed, ge=0, le=MAX_SEED)


class EvaluationBlock(Block):
    """What every checkpoint is evaluated on: groups of data sets, each NAME or NAME/SPLIT.

    A default group of the catalogue may stand without a list, as 'beir: all'; see `search_spaces.groups`.

    `primary_groups`: their unweighted mean decides which of qnorm and dnorm won (default: all but `in_domain`).
    `rag`: on which of these data sets, or of others, questions are also answered.
    `keep_embeddings`: keep them in the sweep folder, as unit directions in fp16 and norms; else only norms are kept.
    `run_files`: keep each ranking in the sweep folder, as a TREC run file (`densesweep runs` exports them).
    `memory_budget`: what a search and the embeddings that go by may take, such as '2GiB'; no result depends on it.
    `tier`: 'pool' evaluates on a part of each corpus that `pool` makes up; one tier, or one for each group by name
    (groups not named: 'full').
    """

    groups: _Groups
    score_similarities: Literal["own", "all"] = "own"
    rag: RagBlock | None = None
    primary_groups: tuple[str, ...] | None = None
    keep_embeddings: bool = False
    run_files: bool = False
    memory_budget: Bytes | None = None
    tier: Tier | dict[str, Tier] = "full"
    pool: PoolBlock | None = None

    @field_validator("tier")
    @classmethod
    def _names_groups(cls, value: Tier | dict[str, Tier], info: ValidationInfo) -> Tier | dict[str, Tier]:
        groups = list(info.data.get("groups", {}))
        for name in value if isinstance(value, dict) and groups else ():
            if name not in groups:
                raise ValueError(unknown_name("group of this file", name, groups))
        return value

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


def _with_embedding(blocks: list[FisherBlock]) -> list[FisherBlock]:
    """Pools are measured in the space of embeddings whatever else is asked, and predictions read that block."""
    if "embedding" not in blocks:
        raise ValueError(f"{', '.join(blocks)}: 'embedding' is always among them (write [embedding, ...])")
    return list(different(blocks))


def _as_share(value: Any) -> Any:
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    return 1 / int(match["parts"]) if match else value


def _checked_share(gpus: float) -> float:
    """Whole GPUs, or an equal share of one: others leave a rest that no trial can use."""
    if 0 < gpus < _LEAST_SHARE:
        raise ValueError(f"{gpus:g} is less of a GPU than Ray can give out, 1/{1 / _LEAST_SHARE:.0f}")
    parts = round(1 / gpus) if 0 < gpus < 1 else 1
    if gpus == int(gpus) or math.isclose(gpus, 1 / parts, rel_tol=1e-9):
        return gpus
    if gpus > 1:
        raise ValueError(f"{gpus:g} GPUs are neither whole nor a share of one (write {int(gpus)} or {int(gpus) + 1})")
    shares = " or ".join(f"1/{k}" if k > 1 else "1" for k in (math.floor(1 / gpus), math.ceil(1 / gpus)))
    raise ValueError(f"{gpus:g} is no equal share of a GPU (write {shares})")


Gpus = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(_as_share),
    AfterValidator(_checked_share),
    Or({"type": "string", "pattern": "^1/[1-9][0-9]*$"}),
]


class ResourcesBlock(Block):
    """What one trial is given, or a probe without `resources` of its own, and how often one that died is tried again.

    `gpus`: whole ones, or 1/k of one ('1/3'), which k trials share. `memory`: how much a trial needs, such as
    8GiB; so many trials run at once as a node has memory for. `accelerator_type`: the kind of GPU to run on, such as
    A100, by the names that Ray gives them.

    `at_once` caps how many trials and probes run together (default: as many as fit the machine's CPUs and GPUs).
    `threads` are the computing threads of a trial (default: one per CPU asked for).
    `stop_after_failures`: a sweep whose first so many trials all fail stops.
    `devices`: how many processes train one trial together, each with the CPUs and GPUs named here.
    `chunk_size` and `torch_compile`: see `Execution`.
    """

    cpus: int = Field(default=1, gt=0)
    gpus: Gpus = 0
    memory: Bytes | None = None
    accelerator_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")] | None = None
    at_once: int | None = Field(default=None, gt=0)
    threads: int | None = Field(default=None, gt=0)
    retries: int = Field(default=1, ge=0)
    stop_after_failures: int = Field(default=5, gt=0)
    devices: int = Field(default=1, gt=0)
    chunk_size: Annotated[int, Field(gt=0)] | Literal["auto"] | None = "auto"
    torch_compile: bool = False

    @field_validator("accelerator_type")
    @classmethod
    def _is_of_a_gpu(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("gpus") == 0:
            raise ValueError(f"'{value}' is a kind of GPU, and gpus is 0 (write how many of them a trial takes)")
        return value


class ProbeResourcesBlock(Block):
    """What one probe is given where that is not what a trial is: CPUs, and GPUs (whole ones, 1/k of one, or none)."""

    cpus: int | None = Field(default=None, gt=0)
    gpus: Gpus | None = None

    def cpus_of(self, resources: ResourcesBlock) -> int:
        """Its CPUs, beside trials that are given `resources`."""
        return resources.cpus if self.cpus is None else self.cpus

    def gpus_of(self, resources: ResourcesBlock) -> float:
        """Its GPUs, beside such trials."""
        return resources.gpus if self.gpus is None else self.gpus


class ProbeBlock(Block):
    """How many training queries a probe reads, how many candidates each is held against, and what is computed.

    See `ProbeSpec`.
    """

    num_queries: int = Field(default=1024, gt=1)
    candidates_per_query: int = Field(default=64, gt=1)
    blocks: Annotated[list[FisherBlock], AfterValidator(_with_embedding)] = Field(default=["embedding", "gamma"])
    empirical: bool = False
    head_queries: int = Field(default=512, gt=1)
    weights_queries: int = Field(default=64, gt=1)
    weights_layers: int | None = Field(default=None, gt=0)
    time_budget_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    resources: ProbeResourcesBlock = ProbeResourcesBlock()


PilotSide = Literal["qnorm", "dnorm", "dot"]


def _with_both_sides(similarities: list[PilotSide]) -> list[PilotSide]:
    """What is called is one of two sides, so both are piloted."""
    for side in ("qnorm", "dnorm"):
        if side not in similarities:
            raise ValueError(f"{', '.join(similarities)}: '{side}' is always among them (write [qnorm, dnorm, ...])")
    return list(different(similarities))


class PilotBlock(Block):
    """Short trainings of each side, before the real ones; see `search_spaces.pilots`.

    `similarities`: both sides, and `dot` where the query norm's variation is to be compared. `data` is NAME/SPLIT, by
    default the development split of each training data set; its pool is chosen as a validation's is.
    """

    steps: int = Field(gt=0)
    similarities: Annotated[list[PilotSide], AfterValidator(_with_both_sides)] = Field(default=["qnorm", "dnorm"])
    data: DataSetRef | None = None
    num_queries: int | None = Field(default=200, gt=1)
    num_documents: int | None = Field(default=2000, gt=0)


class BudgetBlock(Block):
    """Where a sweep stops to start anything: what is under way ends, and the next run goes on with a larger budget.

    `trials`: how many are trained, samples of a search counted. `gpu_hours`: of all trials and probes together, a share
    of a GPU counted as that share. `wall_hours`: of one run.
    """

    trials: int | None = Field(default=None, gt=0)
    gpu_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    wall_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class CheckpointsBlock(Block):
    """When a training writes a checkpoint to resume from: every so many steps, or seconds, whichever comes first.

    `quota`: what all checkpoints of the sweep may take together, such as 50GiB (default: what the disk has).
    `wait_for_space_s`: how long a trial waits where they take that, or the disk is full, before it fails.
    """

    every_steps: int | None = Field(default=None, gt=0)
    every_s: float | None = Field(default=60.0, gt=0, allow_inf_nan=False)
    quota: Bytes | None = None
    wait_for_space_s: float | None = Field(default=3600.0, ge=0, allow_inf_nan=False)


class TrackingBlock(Block):
    """The MLflow tracking server; without one, SQLite in the sweep folder.

    `register`: the best checkpoint of each cell, by validation score, becomes a version in the model registry.
    `upload_checkpoints`: checkpoints are copied to the runs, file by file; else only their manifests are.
    """

    uri: str | None = None
    register_best: bool = Field(default=False, alias="register")  # pydantic's own models have a `register`
    upload_checkpoints: bool = False


class SweepFile(Block):
    """A whole sweep file."""

    name: str
    storage: str | None = None
    reuse: tuple[str, ...] = ()  # other sweep folders, whose finished trials count
    families: tuple[Family, ...] = ()
    data_sets: tuple[DataSet, ...] = ()
    data_sources: dict[DataSetName, SourceText] = Field(
        default={}
    )  # sets of the catalogue that are read from another place
    axes: Axes
    include: tuple[IncludeBlock, ...] = ()  # type: ignore[valid-type]
    exclude: tuple[ExcludeBlock, ...] = ()
    zip: tuple[Zip, ...] = ()  # axes and hyperparameters that vary together, value by value
    missing_checkpoints: Literal["refuse", "leave_out"] = "refuse"
    allow_asymmetric: bool = False  # similarities with s(a, b) != s(b, a) on a symmetric task
    training: TrainingBlock  # type: ignore[valid-type]
    validation: ValidationBlock | None = None
    tune: TuneBlock | None = None
    evaluation: EvaluationBlock
    probe: ProbeBlock = ProbeBlock()
    pilot: PilotBlock | None = None
    resources: ResourcesBlock = ResourcesBlock()
    budget: BudgetBlock = BudgetBlock()
    checkpoints: CheckpointsBlock = CheckpointsBlock()
    tracking: TrackingBlock = TrackingBlock()
    cluster: ClusterBlock | None = None  # where `densesweep k8s` runs it
    references: tuple[str, ...] = ()  # CSV files of external numbers that stand beside the sweep's own

    @field_validator("data_sets")
    @classmethod
    def _are_pinned(cls, value: tuple[DataSet, ...]) -> tuple[DataSet, ...]:
        for entry in value:
            checked_pinned(entry.source)
        return value

    @field_validator("zip")
    @classmethod
    def _zips_once(cls, value: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        names = [name for group in value for name in group]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"'{twice[0]}' stands in two lists (what varies together is one list)")
        return value

    @field_validator("reuse")
    @classmethod
    def _reuses_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(different(value)) if value else value

    @field_validator("name")
    @classmethod
    def _name_stands_in_paths(cls, value: str) -> str:
        if not _SWEEP_NAME.fullmatch(value):
            raise ValueError(f"'{value}' is not a sweep name (lower-case letters, digits, '-' and '_')")
        return value
