"""Coverage by simulation, in brief, with bounds that a wrong interval does not meet; the bootstrap benchmark runs."""

import pytest
from scipy import stats

from tests.benchmarks.bench_bootstrap import measure as measure_bootstrap
from tests.benchmarks.bench_tables import measure as measure_tables
from tests.benchmarks.coverage import Coverage, Scenario, measure, seeds_for_a_claim
from tests.benchmarks.made_sweep import Size

NUM = 250


def could_be(share, low, high):
    """Whether `share` of NUM replicates could come from a true one of `low` to `high` (at 1 in 1,000 on each side)."""
    return stats.binom.ppf(0.001, NUM, low) <= round(share * NUM) <= stats.binom.ppf(0.999, NUM, high)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(num_seeds=3, seed_share=0.98, num_data_sets=2),
        Scenario(num_seeds=3, seed_share=0.0, num_data_sets=2),
        Scenario(num_seeds=5, seed_share=0.75, num_data_sets=2),
        Scenario(num_seeds=10, seed_share=0.5, num_data_sets=2),
        Scenario(num_seeds=3, seed_share=0.5, num_data_sets=6, data_set_std=0.03, target="new data sets"),
    ],
    ids=str,
)
def test_the_two_way_interval_holds_the_truth_as_often_as_it_says(scenario):
    found = measure(scenario, NUM, num_draws=200)

    for share in (found.two_way, found.ratio_of_means, found.mean_of_ratios, 1 - found.type_one):
        assert could_be(share, 0.92, 0.975), found
    assert could_be(found.type_one, 0.03, 0.08), found
    assert 0.75 < found.width < 1.3, found
    if scenario.seed_share > 0.7 and scenario.target == "these data sets":
        assert not could_be(found.these_seeds_only, 0.92, 0.975), "the bounds cannot fail"
    if scenario.seed_share > 0.9:
        assert not could_be(found.bootstrap, 0.92, 0.975), "few dominant seeds: a bootstrap is too narrow"


def test_the_fewest_seeds_for_a_claim_are_printed():
    shares = {"type_one": 0.05, "ratio_of_means": 0.95, "mean_of_ratios": 0.95, "bootstrap": 0.8}
    shares |= {"these_seeds_only": 0.2, "these_seeds_type_one": 0.8}
    found = [
        Coverage(
            scenario=Scenario(num_seeds=n, seed_share=s), num_replicates=9, two_way=0.9 + n / 100 - s / 10, **shares
        )
        for n in (2, 3, 5, 10)
        for s in (0.0, 0.5)
    ]
    lines = list(seeds_for_a_claim(found))
    assert lines[1].startswith(" 3 seeds: worst coverage 88.0%; power by gain in seeds' std 1: 18%, 2: 47%")
    assert lines[-1] == "seeds for a power of 80% (fewest for a claim 3), by the same gains: 1: 10, 2: 5, 3: 4, 4: 3"


def test_the_loop_gives_the_means_of_the_bootstrap():
    found = measure_bootstrap(num_cells=2, num_data_sets=3, num_queries=20, num_draws=50)
    assert found.num_rows == 2 * 5 * 3 * 3 * 20
    assert found.loop_cpu_s > 0


@pytest.mark.slow
def test_the_command_shows_the_tables_of_a_made_sweep_and_of_what_is_collected_of_it():
    size = Size(num_families=1, num_seeds=2, num_data_sets=4, num_queries=20)
    from_sweep, from_collected = measure_tables(size)
    assert from_sweep.num_rows == 20 * 4 * 20
    assert from_sweep.num_tables == from_collected.num_tables > 12
    assert from_collected.num_files < 15 < from_sweep.num_files
    assert from_sweep.peak_bytes > 0
