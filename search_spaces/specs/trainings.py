"""What a training is given beside encoder and data: similarity, scale, hyperparameters, validation."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from search_spaces.specs.data import DataSpec
from search_spaces.specs.execution import Precision

Schedule = Literal["cosine", "linear", "constant"]
LossDirections = Literal["query_to_document", "both"]


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
