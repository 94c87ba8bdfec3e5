"""The learning rate as a function of the step alone, so that a resumed training has no schedule to restore."""

import math

from search_spaces.specs import TrainingSettings


def learning_rate_factor(step: int, settings: TrainingSettings) -> float:
    """What peak learning rates are multiplied by in optimiser step `step` (1 is the first), 0 to 1.

    Linear warm-up from 0, then cosine or linear decay to 0 after the last step, or none: the values of transformers'
    schedulers of these names, whose first warm-up step has learning rate 0.
    """
    done = step - 1
    if done < settings.warmup_steps:
        return done / settings.warmup_steps
    progress = (done - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    match settings.schedule:
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return 1 - progress
        case "constant":
            return 1.0
