import pytest
import torch
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

from search_spaces.specs import TrainingSettings
from trainers.training.schedule import learning_rate_factor


def rates_of_transformers(schedule, steps, warmup):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    if schedule == "constant":
        scheduler = get_constant_schedule_with_warmup(optimizer, warmup)
    else:
        make = {"cosine": get_cosine_schedule_with_warmup, "linear": get_linear_schedule_with_warmup}[schedule]
        scheduler = make(optimizer, warmup, steps)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0, 3, 20, 30])
def test_rates_are_those_of_transformers(schedule, warmup):
    settings = TrainingSettings(steps=20, global_batch=2, learning_rate=0.1, schedule=schedule, warmup_steps=warmup)
    rates = [learning_rate_factor(step, settings) for step in range(1, 21)]
    assert rates == pytest.approx(rates_of_transformers(schedule, 20, warmup))
