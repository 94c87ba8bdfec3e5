"""Seeds: of everything at once, and of one draw among many."""

import hashlib
import random

import numpy as np
import torch

_NUMPY_SEEDS = 2**32


def seed_all(seed: int) -> None:
    """Seed Python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed % _NUMPY_SEEDS)
    torch.manual_seed(seed)


def derived_seed(seed: int, *names: str | int) -> int:
    """A seed of its own for what `names` say, 0 to 2**64 - 1: independent draws from one seed."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:8])
