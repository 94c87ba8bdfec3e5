"""What is run: a trial, which is a cell with a seed and hyperparameters, or a probe of it."""

from dataclasses import dataclass
from typing import Literal

from search_spaces.specs.data import DataSpec
from search_spaces.specs.encoders import EncoderSpec
from search_spaces.specs.execution import Execution
from search_spaces.specs.trainings import ScaleSpec, SimilaritySpec, TrainingSettings, ValidationSpec

MAX_SEED = 2**63 - 1  # of what is drawn by it, torch's generators take no more
Task = Literal["contrastive", "sts"]
TrialKind = Literal["train", "pilot", "untrained"]
FisherBlock = Literal["embedding", "gamma", "head", "weights"]


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
