"""The random states a training may draw from: seeded at its start, kept in its checkpoints. No pickle."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

_NUMPY_SEEDS = 2**32


@dataclass(frozen=True, kw_only=True)
class RandomStates:
    """States of Python's and numpy's generators in a form that JSON holds exactly."""

    python: tuple[int, tuple[int, ...], float | None]
    numpy_key: tuple[int, ...]
    numpy_position: int
    numpy_has_gauss: int
    numpy_gauss: float


def seed_all(seed: int) -> None:
    """Seed Python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed % _NUMPY_SEEDS)
    torch.manual_seed(seed)


def random_states() -> RandomStates:
    """The states of Python's and numpy's global generators now."""
    state: Any = np.random.get_state(legacy=False)
    version, words, gauss = random.getstate()
    return RandomStates(
        python=(version, tuple(words), gauss),
        numpy_key=tuple(state["state"]["key"].tolist()),
        numpy_position=state["state"]["pos"],
        numpy_has_gauss=state["has_gauss"],
        numpy_gauss=state["gauss"],
    )


def restore_random_states(states: RandomStates) -> None:
    """Continue Python's and numpy's global generators from `states`."""
    random.setstate(states.python)
    key = np.asarray(states.numpy_key, dtype=np.uint32)
    np.random.set_state(("MT19937", key, states.numpy_position, states.numpy_has_gauss, states.numpy_gauss))


def torch_random_states() -> dict[str, Tensor]:
    """The states of torch's generators (uint8), by device type: 'cpu', and 'cuda' where the training is on one."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_torch_random_states(states: dict[str, Tensor]) -> None:
    """Continue torch's generators from `states`."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"])
