"""The history of a training: one row for each optimiser step."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StepNumbers:
    """What one optimiser step shows: the columns of the schema HISTORY but the trial's.

    Loss, norms and gammas are those that the step's gradient was taken at. For norms see `diagnostics.NormNumbers`, for
    the numbers of the softmax (absent where the task has none) `diagnostics.SoftmaxNumbers`.

    Attributes:
        step: 1 is the first.
        gradient_norm: over all trained weights, before clipping.
        effective_temperature: 1 / (scale * mean |q|^(1 - gamma_q)): under dnorm the query's norm acts in it.
        pairs_per_s: the global batch over the step's wall time, its batch made ready included.
        tokens_per_s: likewise of the tokens that are no pads.
        padding_share: of the tokens laid out in chunks, those that are pads: packed, only attention computes them.
        peak_memory_bytes: of the training so far: the accelerator's, or on a CPU the process's; None where not told.
        validation_score: mean nDCG@10 of the validation after this step, 0 to 1 (Spearman's correlation for `sts`, -1
            to 1); None where there was none.
        log10_kappa: of the batch's Fisher information (`batch_kappa`), in the steps that log it.

    Rates and memory alone differ between two runs of one trial (`MEASURED`).
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    query_norm_mean: float
    query_norm_std: float
    query_norm_q05: float
    query_norm_median: float
    query_norm_q95: float
    document_norm_mean: float
    document_norm_std: float
    document_norm_q05: float
    document_norm_median: float
    document_norm_q95: float
    gamma_q: float
    gamma_d: float
    effective_temperature: float | None
    logit_std: float | None
    perplexity: float | None
    saturated_share: float | None
    score_margin: float | None
    negatives_per_query: float | None
    pairs_per_s: float
    tokens_per_s: float
    padding_share: float
    peak_memory_bytes: int | None
    validation_score: float | None = None
    log10_kappa: float | None = None


MEASURED = ("pairs_per_s", "tokens_per_s", "peak_memory_bytes")


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """What a trial tells after each optimiser step, out of `num_steps`."""

    trial_id: str
    numbers: StepNumbers
    num_steps: int

    @property
    def history_row(self) -> Mapping[str, Any]:
        """The step as a row of the schema HISTORY."""
        return history_row(self.trial_id, self.numbers)


Report = Callable[[StepReport], None]


def history_row(trial_id: str, numbers: StepNumbers) -> dict[str, Any]:
    """A step as a row of the schema HISTORY."""
    return {"trial_id": trial_id, **asdict(numbers)}


def from_history_row(row: Mapping[str, Any]) -> StepNumbers:
    """A step from its row."""
    return StepNumbers(**{name: value for name, value in row.items() if name != "trial_id"})
