"""How a gain varies: between seeds, and what seeds, queries and the rest bring to its standard error."""

from dataclasses import dataclass, replace

import numpy as np

from results.statistics.contrasts import gain_of
from results.statistics.groups import GroupScores, coefficient_vector, contrast_layouts, group_means
from results.statistics.power import seeds_needed
from results.statistics.two_way import components_of

DETECTABLE = 0.01
"""The gain that `num_needed` seeds can see: one point of nDCG, which is 0 to 1 here."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """All in the unit of the scores, None where one seed or one query cannot tell.

    Attributes:
        seed_std: standard deviation of the group's gain between seeds, on the same queries.
        seeds_error: what seeds bring to the standard error of the mean gain.
        queries_error: what queries bring.
        rest_error: what seeds and queries bring together, and all else.
        num_needed: the fewest seeds that see a gain of DETECTABLE with a power of 80 % where seeds bring all variance.
    """

    seed_std: float | None = None
    seeds_error: float | None = None
    queries_error: float | None = None
    rest_error: float | None = None
    num_needed: int | None = None


def seed_scores(group: GroupScores, column: str) -> list[float]:
    """The group's score with each seed."""
    num_seeds = group.data_sets[0].values_CSQ.shape[1]
    place = group.columns.index(column)
    return [float(group_means(_of_seed(group, seed))[place]) for seed in range(num_seeds)]


def gain_spread(group: GroupScores, similarity: str, baseline: str) -> Spread:
    """That of the gain of `similarity` over `baseline` for these data sets."""
    layouts = contrast_layouts(
        group, coefficient_vector(group, gain_of(similarity, baseline)), target="these data sets"
    )
    num_seeds = min(layout.values_SQ.shape[0] for layout in layouts)
    if num_seeds < 2:
        return Spread()
    by_seed = np.array(seed_scores(group, similarity)) - np.array(seed_scores(group, baseline))
    seed_std = float(by_seed.std(ddof=1))
    needed = seeds_needed(DETECTABLE, seed_std) if seed_std > 1e-12 else None
    if min(layout.values_SQ.shape[1] for layout in layouts) < 2:
        return Spread(seed_std=seed_std, num_needed=needed)
    found = components_of(layouts)
    rest = found.rest.variance
    return Spread(
        seed_std=seed_std,
        seeds_error=max(found.seeds.variance - rest, 0.0) ** 0.5,
        queries_error=max(found.queries.variance - rest, 0.0) ** 0.5,
        rest_error=rest**0.5,
        num_needed=needed,
    )


def _of_seed(group: GroupScores, seed: int) -> GroupScores:
    parts = (replace(part, values_CSQ=part.values_CSQ[:, seed : seed + 1]) for part in group.data_sets)
    return replace(group, data_sets=tuple(parts))
