"""How often intervals hold the truth: two-way, crossed bootstrap and 'these seeds only', by simulation.

A group of data sets is drawn anew in each replicate, as the two-way model says (seeds shared by all data sets, part of
their effect differing between data sets; queries; a residual as large as the queries' own variance), and the functions
of `results.statistics` are asked for the interval, level 95 %. Type I error is the share of p below 0.05 with no gain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from results.statistics.bootstrap import Draws, bootstrap_group_means, percentile_interval
from results.statistics.contrasts import paired_gain
from results.statistics.estimate import Estimate, Floats, Target
from results.statistics.groups import DataSetScores, GroupScores
from results.statistics.power import MIN_SEEDS, POWER, power_of, seeds_needed
from results.statistics.ratios import mean_of_ratios, ratio_of_means
from tests.benchmarks.options import Options

NUM_SEEDS = (2, 3, 5, 10)
SEED_SHARES = (0.0, 0.25, 0.5, 0.75, 0.98)
NUM_REPLICATES = 2000
GAIN, BASE = 0.05, 0.30
_QUERY_STD = 0.15  # of a difference, between queries of a data set
_COMMON = 0.8  # the part of the seeds' variance that all data sets share


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is simulated.

    Attributes:
        num_seeds: of both columns, shared by the data sets.
        seed_share: of the variance of the group's mean gain, what seeds bring, 0 to 1.
        num_data_sets: in the group.
        num_queries: of each data set.
        data_set_std: of the true gain between data sets.
        target: what the interval is to hold.
    """

    num_seeds: int
    seed_share: float
    num_data_sets: int = 4
    num_queries: int = 40
    data_set_std: float = 0.0
    target: Target = "these data sets"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Shares of replicates, 0 to 1: intervals that hold the truth, and false alarms where there is no gain.

    `width` is the median of the two-way interval's width over `oracle_width`: what holds the truth because it is wide
    is no good interval.
    """

    scenario: Scenario
    num_replicates: int
    two_way: float
    type_one: float
    ratio_of_means: float
    mean_of_ratios: float
    bootstrap: float
    these_seeds_only: float
    these_seeds_type_one: float
    width: float = 1.0

    def __str__(self) -> str:
        s = self.scenario
        where = f"{s.target}: {s.num_seeds:>2} seeds, {s.seed_share:>4.0%} of the variance theirs"
        return (
            f"{where}: coverage {self.two_way:.1%} (type I {self.type_one:.1%}, width {self.width:.2f}), "
            f"ratio of means {self.ratio_of_means:.1%}, mean of ratios {self.mean_of_ratios:.1%}, bootstrap "
            f"{self.bootstrap:.1%}, these seeds only {self.these_seeds_only:.1%} "
            f"(type I {self.these_seeds_type_one:.1%})"
        )


def scenarios() -> Iterator[Scenario]:
    """Both targets, from no seed variance to almost nothing else."""
    for num_seeds in NUM_SEEDS:
        for share in SEED_SHARES:
            yield Scenario(num_seeds=num_seeds, seed_share=share)
    for num_seeds in NUM_SEEDS:
        for share in SEED_SHARES:
            yield Scenario(
                num_seeds=num_seeds, seed_share=share, num_data_sets=6, data_set_std=0.03, target="new data sets"
            )


def run(options: Options) -> Iterator[Coverage | str]:
    """All scenarios (each replicate is drawn with a seed of its own), then the fewest seeds for a claim."""
    found = []
    for scenario in scenarios():
        found.append(measure(scenario, NUM_REPLICATES))
        yield found[-1]
    yield from seeds_for_a_claim(found)


def seeds_for_a_claim(found: Sequence[Coverage]) -> Iterator[str]:
    """The worst coverage of each number of seeds, and what gains it can see."""
    for num_seeds in NUM_SEEDS:
        worst = min(one.two_way for one in found if one.scenario.num_seeds == num_seeds)
        powers = ", ".join(f"{gain}: {power_of(num_seeds, gain, 1.0):.0%}" for gain in (1, 2, 3, 4))
        yield f"{num_seeds:>2} seeds: worst coverage {worst:.1%}; power by gain in seeds' std {powers}"
    needed = ", ".join(f"{gain}: {seeds_needed(gain, 1.0)}" for gain in (1, 2, 3, 4))
    yield f"seeds for a power of {POWER:.0%} (fewest for a claim {MIN_SEEDS}), by the same gains: {needed}"


def measure(scenario: Scenario, num_replicates: int, *, num_draws: int = 1000) -> Coverage:
    """The shares over `num_replicates` groups; `num_draws` of the bootstrap for each."""
    found = np.array([_holds(scenario, number, num_draws) for number in range(num_replicates)], dtype=float)
    shares, width = found[:, :-1].mean(axis=0), np.median(found[:, -1])
    return Coverage(
        scenario=scenario,
        num_replicates=num_replicates,
        two_way=shares[0],
        type_one=shares[1],
        ratio_of_means=shares[2],
        mean_of_ratios=shares[3],
        bootstrap=shares[4],
        these_seeds_only=shares[5],
        these_seeds_type_one=shares[6],
        width=float(width) / oracle_width(scenario),
    )


def simulated_group(scenario: Scenario, generator: np.random.Generator, gain: float) -> GroupScores:
    """Columns 'better' and 'base' of one group; 'better' gains `gain` on average."""
    shared_S = generator.normal(size=scenario.num_seeds)
    return GroupScores(
        name="simulated",
        trainings="simulated",
        columns=("better", "base"),
        data_sets=tuple(
            DataSetScores(name=f"{j}", part_of=f"{j}", values_CSQ=_data_set(scenario, generator, gain, shared_S))
            for j in range(scenario.num_data_sets)
        ),
    )


def seed_std(scenario: Scenario) -> float:
    """Of the group's mean gain between seeds, from the share asked for."""
    other = _QUERY_STD**2 * (1 + 1 / scenario.num_seeds) / scenario.num_queries / scenario.num_data_sets
    if scenario.target == "new data sets":
        other += scenario.data_set_std**2 / scenario.num_data_sets
    return float(np.sqrt(other * scenario.num_seeds * scenario.seed_share / (1 - scenario.seed_share)))


def oracle_width(scenario: Scenario) -> float:
    """The width of the interval that knows each source's variance, and has the degrees of freedom that these give."""
    seeds, queries, sets = scenario.num_seeds, scenario.num_queries, scenario.num_data_sets
    of_seeds, of_queries = seed_std(scenario) ** 2, _QUERY_STD**2
    if scenario.target == "these data sets":
        rest = of_queries / (seeds * queries * sets)
        parts = ((of_seeds / seeds + rest, seeds - 1), (of_queries / (queries * sets) + rest, sets * (queries - 1)))
        rest_df = sets * (seeds - 1) * (queries - 1)
    else:
        rest = ((1 - _COMMON) * of_seeds * sets + of_queries / queries) / (seeds * sets)
        between = (scenario.data_set_std**2 + of_queries / queries) / sets + rest
        parts = ((_COMMON * of_seeds / seeds + rest, seeds - 1), (between, sets - 1))
        rest_df = (seeds - 1) * (sets - 1)
    variance = sum(part for part, _ in parts) - rest
    df = variance**2 / (sum(part**2 / of_df for part, of_df in parts) + rest**2 / rest_df)
    return float(2 * stats.t.ppf(0.975, df) * variance**0.5)


def _data_set(scenario: Scenario, generator: np.random.Generator, gain: float, shared_S: Floats) -> Floats:
    num_seeds, num_queries = scenario.num_seeds, scenario.num_queries
    own = np.sqrt((1 - _COMMON) * scenario.num_data_sets)  # averaged over data sets, it adds what is not common
    seeds_S = seed_std(scenario) * (np.sqrt(_COMMON) * shared_S + own * generator.normal(size=num_seeds))
    true = gain + scenario.data_set_std * generator.normal()
    rest_SQ = generator.normal(size=(num_seeds, num_queries)) + generator.normal(size=num_queries)
    difference_SQ = true + seeds_S[:, None] + _QUERY_STD * rest_SQ
    base_SQ = BASE + 0.1 * generator.normal(size=num_queries) + 0.05 * generator.normal(size=(num_seeds, num_queries))
    return np.stack([base_SQ + difference_SQ, base_SQ])


def _holds(scenario: Scenario, number: int, num_draws: int) -> tuple[float, ...]:
    generator = np.random.default_rng([number, scenario.num_seeds, int(1000 * scenario.seed_share)])
    gained, null = (simulated_group(scenario, generator, gain) for gain in (GAIN, 0.0))
    target = scenario.target
    means_BC = bootstrap_group_means(gained, Draws(num_draws=num_draws, seed=number), target=target)
    low, high = percentile_interval(means_BC[:, 0] - means_BC[:, 1])
    two_way = paired_gain(gained, "better", "base", target=target)
    return (
        _has(two_way, GAIN),
        _alarms(paired_gain(null, "better", "base", target=target)),
        _has(ratio_of_means(gained, "better", "base", target=target), GAIN / BASE),
        _has(mean_of_ratios(gained, "better", "base", target=target), GAIN / BASE),
        low <= GAIN <= high,
        _has(paired_gain(gained, "better", "base", target=target, sources="these seeds only"), GAIN),
        _alarms(paired_gain(null, "better", "base", target=target, sources="these seeds only")),
        _width(two_way),
    )


def _width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def _has(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def _alarms(estimate: Estimate) -> bool:
    assert estimate.p is not None
    return estimate.p < 0.05
