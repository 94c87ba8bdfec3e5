"""AdamW over a retriever, as the study sets it."""

from typing import Any

from torch.optim import AdamW, Optimizer

from search_spaces.specs import TrainingSettings
from trainers.training.retriever import Retriever
from trainers.training.schedule import learning_rate_factor


def make_optimizer(retriever: Retriever, settings: TrainingSettings) -> Optimizer:
    """AdamW with weight decay on every encoder weight; trained gammas have a learning rate of their own and no decay.

    With the encoder's rate the gammas could hardly move (2e-6 a step), and decay would pull them to 0.5. Each
    parameter group keeps its peak rate in `initial_lr`; `set_learning_rates` applies the schedule.
    """
    groups: list[dict[str, Any]] = [
        {
            "params": [weight for weight in retriever.encoder.parameters() if weight.requires_grad],
            "initial_lr": settings.learning_rate,
            "weight_decay": settings.weight_decay,
        }
    ]
    if gammas := list(retriever.gammas.parameters()):
        groups.append({"params": gammas, "initial_lr": settings.gamma_learning_rate, "weight_decay": 0.0})
    # fused: one pass over the weights without temporary copies; on a CPU a quarter of the time, and the same numbers.
    return AdamW(groups, lr=0.0, betas=(settings.beta_1, settings.beta_2), eps=settings.epsilon, fused=True)


def set_learning_rates(optimizer: Optimizer, step: int, settings: TrainingSettings) -> float:
    """Set every group's rate for optimiser step `step` (1 is the first), and return the encoder's."""
    factor = learning_rate_factor(step, settings)
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
    return float(optimizer.param_groups[0]["lr"])
