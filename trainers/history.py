"""The history of a training: one row for each optimiser step."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StepNumbers:
    """What one optimiser step shows: the columns of the schema HISTORY but the trial's.

    Loss, norms and gammas are those that the step's gradient was taken at. `gradient_norm` is over all trained
    weights, before clipping. `pairs_per_s` is the global batch over the step's own wall time; it alone differs between
    two runs of one trial.
    """

    step: int  # 1 is the first
    loss: float
    learning_rate: float
    gradient_norm: float
    query_norm_mean: float
    query_norm_std: float
    document_norm_mean: float
    document_norm_std: float
    gamma_q: float
    gamma_d: float
    pairs_per_s: float


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
