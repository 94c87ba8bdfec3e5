"""Permutations and draws of points that stay within their groups, as rows of indices."""

from collections.abc import Sequence
from itertools import permutations, product
from math import factorial, prod

import numpy as np

from results.statistics.coefficients import Ints


def codes_of(groups: Sequence[str]) -> Ints:
    """(N,): 0, 1, ... by group, in order of first appearance."""
    places = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    return np.array([places[name] for name in groups], dtype=np.int64)


def permutations_within(codes_N: Ints, most: int, seed: int) -> tuple[Ints, bool]:
    """(B, N) of indices, and whether they are all permutations within groups: else `most` seeded ones."""
    members = _members(codes_N)
    if prod(factorial(len(inside)) for inside in members) <= most:
        rows = list(product(*(permutations(inside) for inside in members)))
        order_BN = np.empty((len(rows), len(codes_N)), dtype=np.int64)
        for place, inside in enumerate(members):
            order_BN[:, inside] = [row[place] for row in rows]
        return order_BN, True
    generator = np.random.default_rng(seed)
    order_BN = np.empty((most, len(codes_N)), dtype=np.int64)
    for inside in members:
        order_BN[:, inside] = generator.permuted(np.tile(inside, (most, 1)), axis=1)
    return order_BN, False


def draws_within(codes_N: Ints, num_draws: int, seed: int) -> Ints:
    """(B, N) of indices drawn with replacement, each from its own group."""
    generator = np.random.default_rng(seed)
    chosen_BN = np.empty((num_draws, len(codes_N)), dtype=np.int64)
    for inside in _members(codes_N):
        chosen_BN[:, inside] = generator.choice(inside, size=(num_draws, len(inside)))
    return chosen_BN


def _members(codes_N: Ints) -> list[Ints]:
    return [np.flatnonzero(codes_N == code) for code in np.unique(codes_N)]
