"""Cohen's d by hand, its correlation with gains against scipy and statsmodels, and what is missing."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.collect import collect
from results.layout import judgement_rows
from results.magnitude import cohen_ds
from results.magnitude_correlation import magnitude_correlations, magnitude_points
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES, TableOptions, applicable
from results.tables.cohen_d import found_statistics
from tests.results.builders import SweepFolder, evaluation, evaluation_spec, failed, trained, untrained

HALF = [0.5, 0.5]


def flat(*_):
    return HALF


@pytest.fixture
def folder(tmp_path):
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=(evaluation("attack", "in_domain"),))


def distances(folder, **options):
    collected = collect(folder.store, folder.record())
    return cohen_ds(found_statistics(collected), collected.expected, **options)


def d_by_hand(relevant, irrelevant):
    n, m = len(relevant), len(irrelevant)
    pooled = ((n - 1) * np.var(relevant, ddof=1) + (m - 1) * np.var(irrelevant, ddof=1)) / (n + m - 2)
    return (np.mean(relevant) - np.mean(irrelevant)) / pooled**0.5


def test_relevant_documents_stand_against_judged_and_unjudged_ones(folder):
    key = folder.add_trial(trained("qnorm"), flat)
    [planned] = folder.evaluations
    # d2 is judged 0 for one query and relevant for another: relevant. d6 is in no corpus.
    grades = {("q0", "d0"): 1, ("q0", "d2"): 0, ("q1", "d2"): 3, ("q0", "d1"): 0, ("q1", "d3"): -1, ("q0", "d9"): 1}
    folder.write_judgements(planned, grades)
    folder.write_norms(key, planned, (6.0, 2.0, 4.5, 3.5, 1.0, 5.0, 2.5), queries=(1.0, 2.0, 4.0))
    judged, unjudged = distances(folder).iter_rows(named=True)
    assert (judged["irrelevant"], unjudged["irrelevant"]) == ("judged 0", "unjudged")
    assert judged["cohen_d"] == pytest.approx(d_by_hand([6.0, 4.5], [2.0, 3.5]))
    assert unjudged["cohen_d"] == pytest.approx(d_by_hand([6.0, 4.5], [1.0, 5.0, 2.5]))
    assert (judged["relevant_norm"], judged["irrelevant_norm"]) == pytest.approx((5.25, 2.75))
    assert (unjudged["num_relevant"], unjudged["num_irrelevant"], unjudged["num_queries"]) == (2, 3, 3)
    assert unjudged["query_cv"] == pytest.approx(np.std([1, 2, 4], ddof=1) / np.mean([1, 2, 4]))
    assert unjudged["trial_ids"] == key


def test_a_grade_below_the_threshold_is_on_neither_side(folder):
    folder.evaluations = (replace(folder.evaluations[0], relevance_threshold=2),)
    key = folder.add_trial(trained("qnorm"), flat)
    folder.write_judgements(folder.evaluations[0], {("q0", "d0"): 2, ("q0", "d1"): 3, ("q0", "d2"): 1})
    folder.write_norms(key, folder.evaluations[0], (6.0, 4.0, 50.0, 1.0, 2.0))
    [row] = distances(folder).iter_rows(named=True)
    assert row["cohen_d"] == pytest.approx(d_by_hand([6.0, 4.0], [1.0, 2.0]))
    assert (row["irrelevant"], row["num_relevant"], row["num_irrelevant"]) == ("unjudged", 2, 2)


def test_seeds_and_parts_are_averaged_and_the_untrained_checkpoint_has_a_row(tmp_path):
    forums = tuple(evaluation(name, "beir", part_of="cqadupstack") for name in ("android", "english"))
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=forums)
    trials = [folder.add_trial(trained("qnorm", seed=seed), flat) for seed in (0, 1)]
    before = folder.add_trial(untrained(), flat)
    expected = []
    for number, planned in enumerate(forums):
        folder.write_judgements(planned, {("q0", "d0"): 1, ("q0", "d1"): 1})
        folder.write_norms(before, planned, (1.0, 2.0, 1.0, 2.0))
        for seed, key in enumerate(trials):
            norms = (5.0 + seed, 6.0 + 2 * number, 1.0, 3.0)
            folder.write_norms(key, planned, norms)
            expected.append(d_by_hand(norms[:2], norms[2:]))
    rows = {row["kind"]: row for row in distances(folder).iter_rows(named=True)}
    assert rows["train"]["cohen_d"] == pytest.approx(np.mean(expected))
    assert (rows["train"]["cohen_d_min"], rows["train"]["cohen_d_max"]) == pytest.approx(
        tuple(sorted((np.mean(expected[0::2]), np.mean(expected[1::2]))))
    )
    assert (rows["train"]["data_set"], rows["train"]["num_seeds"]) == ("cqadupstack", 2)
    assert (rows["untrained"]["cohen_d"], rows["untrained"]["similarity"]) == (pytest.approx(0.0), None)


def test_norms_that_are_missing_are_a_hole_and_equal_ones_a_dash(folder):
    key = folder.add_trial(trained("cosine"), flat)
    folder.write_judgements(folder.evaluations[0], {("q0", "d0"): 1, ("q0", "d1"): 1})
    folder.write_norms(key, folder.evaluations[0], (1.0, 1.0, 1.0, 1.0))
    folder.add_trial(trained("qnorm"), flat)
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    table = TABLES["cohen_d"].build(collect(folder.store, folder.record()), TableOptions())
    assert table.rows.filter(pl.col("similarity") == "cosine")["cohen_d"].to_list() == [None]
    assert any(note.startswith("Dash in attack: fewer than two documents") for note in table.notes)
    assert table.holes == (
        "minilm-3l/finetune/dnorm/s0: whole trial: failed: out of memory",
        "minilm-3l/finetune/qnorm on attack/test: its norms or judgements are missing (run the sweep again)",
    )


def test_without_judgements_there_is_no_d(folder):
    key = folder.add_trial(trained("cosine"), flat)
    folder.write_norms(key, folder.evaluations[0], (1.0, 2.0))
    assert not folder.store.exists(judgement_rows(evaluation_spec(folder.evaluations[0]).data))
    assert distances(folder)["reason"].to_list() == ["its norms or judgements are missing"]


# Six data sets of two groups: the relation lies between the groups, and the last is an outlier.
SETS = {
    "a": ("beir", 1.0, 0.010),
    "b": ("beir", 2.0, 0.005),
    "c": ("beir", 3.0, 0.012),
    "d": ("bright", 6.0, 0.060),
    "e": ("bright", 7.0, 0.050),
    "f": ("bright", 8.0, 0.065),
    "g": ("bright", 7.5, 0.900),
}


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """Cohen's d and gains as in SETS, to which a hopeless fine-tuning under dnorm is added."""
    data = tuple(evaluation(name, group) for name, (group, _, _) in SETS.items())
    folder = SweepFolder(store=open_store(str(tmp_path_factory.mktemp("spread"))), evaluations=data)

    def score(data_set, scored_with):
        return [0.05 + (SETS[data_set][2] if scored_with == "qnorm" else 0.0)] * 2

    for similarity in ("cosine", "qnorm", "dnorm"):
        key = folder.add_trial(trained(similarity), score)
        for planned in data:
            # Two documents on each side, one norm apart: the pooled deviation is 1 / sqrt(2).
            more = SETS[planned.data_set][1] / 2**0.5
            folder.write_norms(key, planned, (10 + more, 11 + more, 10, 11))
    for planned in data:
        folder.write_judgements(planned, {("q0", "d0"): 1, ("q0", "d1"): 1})
    return collect(folder.store, folder.record())


def correlations(spread, **options):
    rows = magnitude_correlations(found_statistics(spread), spread.data_set_scores, spread.expected, **options)
    return {(row["coefficient"], row["scope"], row["outliers"]): row for row in rows.iter_rows(named=True)}


def test_points_are_data_sets_with_d_and_gain(spread):
    points = magnitude_points(found_statistics(spread), spread.data_set_scores, spread.expected)
    found = {
        name: (group, d, gain) for name, group, d, gain in points.select("data_set", "group", "cohen_d", "gain").rows()
    }
    assert set(found) == set(SETS)
    for name, (group, d, gain) in SETS.items():
        assert found[name] == (group, pytest.approx(d, rel=1e-6), pytest.approx(gain))


def test_correlations_over_all_and_within_groups_are_those_of_scipy(spread):
    found = correlations(spread)
    assert len(found) == 8
    x, y = np.array([d for _, d, _ in SETS.values()]), np.array([gain for *_, gain in SETS.values()])
    over_all = found["pearson", "over all", "with"]
    assert over_all["value"] == pytest.approx(stats.pearsonr(x, y).statistic, rel=1e-5)
    assert over_all["n"] == 7
    assert found["spearman", "over all", "with"]["value"] == pytest.approx(stats.spearmanr(x, y).statistic)
    without = found["pearson", "over all", "without"]
    assert (without["n"], without["num_left_out"]) == (6, 1)
    assert without["value"] == pytest.approx(stats.pearsonr(x[:6], y[:6]).statistic, rel=1e-5)
    assert over_all["most_influential"] == "g"
    # Within groups the two groups' means are taken off: between them lies nearly all of the relation.
    within = found["pearson", "within groups", "without"]
    left = [np.concatenate([v[:3] - v[:3].mean(), v[3:6] - v[3:6].mean()]) for v in (x, y)]
    assert within["value"] == pytest.approx(stats.pearsonr(*left).statistic, rel=1e-5)
    assert within["value"] < 0.5 < 0.9 < without["value"]


def test_holm_goes_over_all_that_is_shown(spread):
    rows = list(correlations(spread).values())
    expected = multipletests([row["p"] for row in rows], method="holm")[1]
    assert [row["adjusted_p"] for row in rows] == pytest.approx(list(expected))


def test_another_similarity_and_baseline(spread):
    found = correlations(spread, where={"similarity": "dnorm"})
    assert {row["similarity"] for row in found.values()} == {"dnorm"}
    assert all(row["reason"] for row in found.values())  # dnorm gains nothing anywhere: no variation
    with pytest.raises(SelectionError, match=r"'cosin'.*did you mean 'cosine'"):
        correlations(spread, baseline="cosin")


def test_a_gain_of_unlike_seeds_is_no_point(folder):
    for similarity, seeds in (("cosine", (0,)), ("qnorm", (0, 1))):
        for seed in seeds:
            key = folder.add_trial(trained(similarity, seed=seed), flat)
            folder.write_norms(key, folder.evaluations[0], (5.0, 6.0, 1.0, 2.0))
    folder.write_judgements(folder.evaluations[0], {("q0", "d0"): 1, ("q0", "d1"): 1})
    collected = collect(folder.store, folder.record())
    found = magnitude_correlations(found_statistics(collected), collected.data_set_scores, collected.expected)
    assert set(found["reason"]) == {"no data set has both d and gain"}


def test_scales_and_training_data_are_never_pooled(folder):
    folder.write_judgements(folder.evaluations[0], {("q0", "d0"): 1, ("q0", "d1"): 1})
    for number, changes in enumerate(({}, {"scale": 50.0}, {"data": "conala"})):
        key = folder.add_trial(trained("qnorm", **changes), flat)
        folder.write_norms(key, folder.evaluations[0], (5.0 + number, 6.0 + number, 1.0, 2.0))
    table = TABLES["cohen_d"].build(collect(folder.store, folder.record()), TableOptions())
    assert {"scale", "training data"} <= {column.header for column in table.columns}
    assert sorted(table.rows["cohen_d"]) == pytest.approx([(4 + n) * 2**0.5 for n in range(3)])


def test_the_correlation_is_a_table_only_where_qnorm_is_trained(folder):
    folder.plan_trial(trained("cosine"))
    assert "magnitude_correlation" not in applicable(folder.record())
    folder.plan_trial(trained("qnorm"))
    assert "magnitude_correlation" in applicable(folder.record())
