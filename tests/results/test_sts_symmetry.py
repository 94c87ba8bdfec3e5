"""The loss of symmetry: its value against scipy, its interval against the two ways of taking pairs."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.collect import collect
from results.store import open_store
from results.sts_symmetry import symmetry_losses
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import SweepFolder, evaluation, trained

NUM = 80
GOLD = np.arange(NUM) / (NUM - 1)
DRAWN = np.random.default_rng(5)


def noisy(noise):
    return GOLD + noise * DRAWN.normal(size=NUM)


ORDERS = {
    "cosine": [(same := noisy(0.2)), same],
    "qnorm": [noisy(0.2), noisy(1.5)],
    "dnorm": [noisy(0.5), noisy(0.5)],
}


@pytest.fixture
def folder(tmp_path):
    data = (evaluation("stsb", "sts", main_measure=SPEARMAN),)
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data)


def losses(folder):
    collected = collect(folder.store, folder.record())
    return symmetry_losses(collected.scored_pairs(), collected.expected_sts)


def test_the_loss_is_the_difference_of_both_orders_and_symmetry_has_no_test(folder):
    for similarity, orders in ORDERS.items():
        folder.add_trial(trained(similarity), lambda _, __, orders=orders: orders)
    rows = {row["similarity"]: row for row in losses(folder).iter_rows(named=True)}
    for similarity, orders in ORDERS.items():
        forward, swapped = (stats.spearmanr(order, GOLD).statistic for order in orders)
        assert rows[similarity]["loss"] == pytest.approx(forward - swapped, abs=1e-12)
    assert (rows["cosine"]["loss_low"], rows["cosine"]["loss_high"], rows["cosine"]["loss_p"]) == (0, 0, None)
    assert rows["qnorm"]["loss_low"] > 0.1
    assert rows["dnorm"]["loss_low"] < 0 < rows["dnorm"]["loss_high"]
    asymmetric = [rows["qnorm"], rows["dnorm"]]
    expected = multipletests([row["loss_p"] for row in asymmetric], method="holm")[1]
    assert [row["loss_adjusted_p"] for row in asymmetric] == pytest.approx(list(expected))
    assert rows["qnorm"]["loss_sources"] == "these seeds only"


def test_the_interval_is_near_the_bootstraps(folder):
    forward, swapped = ORDERS["qnorm"]
    folder.add_trial(trained("qnorm"), lambda *_: (forward, swapped))
    [row] = losses(folder).iter_rows(named=True)

    def loss(chosen):
        of = (stats.spearmanr(order[chosen], GOLD[chosen]).statistic for order in (forward, swapped))
        return next(of) - next(of)

    draws = [loss(np.random.default_rng(seed).integers(NUM, size=NUM)) for seed in range(400)]
    assert (row["loss_high"] - row["loss_low"]) / 2 / stats.t.ppf(0.975, NUM - 1) == pytest.approx(
        np.std(draws), rel=0.2
    )


def test_seeds_parts_and_groups_are_averaged(tmp_path):
    data = (
        evaluation("sts12/a", "sts", main_measure=SPEARMAN, part_of="sts12"),
        evaluation("sts12/b", "sts", main_measure=SPEARMAN, part_of="sts12"),
        evaluation("stsb", "sts", main_measure=SPEARMAN),
    )
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data)
    scores = {(planned.data_set, seed): [noisy(0.3), noisy(0.9)] for planned in data for seed in (0, 1)}
    for seed in (0, 1):
        folder.add_trial(trained("qnorm", seed=seed), lambda name, _, seed=seed: scores[name, seed])
    rows = {row["data_set"]: row for row in losses(folder).iter_rows(named=True)}
    single = {
        key: stats.spearmanr(forward, GOLD).statistic - stats.spearmanr(swapped, GOLD).statistic
        for key, (forward, swapped) in scores.items()
    }
    whole = np.mean([single[f"sts12/{part}", seed] for part in "ab" for seed in (0, 1)])
    alone = np.mean([single["stsb", seed] for seed in (0, 1)])
    assert set(rows) == {"sts12", "stsb", None}
    assert (rows["sts12"]["loss"], rows["stsb"]["loss"]) == pytest.approx((whole, alone))
    assert rows[None]["loss"] == pytest.approx((whole + alone) / 2)
    assert rows[None]["loss_sources"] == "seeds and queries"


def test_a_lost_seed_leaves_no_loss(folder):
    folder.add_trial(trained("qnorm", seed=0), lambda *_: ORDERS["qnorm"])
    folder.add_trial(trained("qnorm", seed=1), lambda *_: [np.full(NUM, np.nan)] * 2)
    assert losses(folder)["loss"].to_list() == []
