"""What tells gains from chance, against scipy: paired tests, effect sizes, bootstrap, winners, ranks, seeds."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from test_gain_intervals import cells_of, values_of

from results.cell_ranks import cell_ranks
from results.cell_winners import cell_winners
from results.estimates import mark
from results.scores import by_data_set
from results.seed_spread import seed_spread
from results.significance import SEVERAL, Methods, significance
from results.statistics.bootstrap import Draws, bootstrap_group_means
from results.statistics.contrasts import paired_gain
from results.statistics.paired_tests import data_set_gains, group_differences
from results.statistics.power import power_of
from results.tables import TABLES, TableOptions

WHERE = {"family": "minilm", "init_regime": "finetune"}
FEW = Draws(num_draws=200)
CELL = ("family", "layers", "init_regime", "group")


def picked(frame, **where):
    rows = frame.filter(*(pl.col(name) == value for name, value in (WHERE | where).items()))
    assert rows.height == 1
    return rows.row(0, named=True)


def differences(seeded, similarity, data_set):
    """(Q,): averaged over seeds."""

    def mean(name):
        rows = seeded.per_query.filter(
            pl.col("is_main"),
            pl.col("kind") == "train",
            *(pl.col(key) == value for key, value in (WHERE | {"similarity": name, "data_set": data_set}).items()),
        ).unique(["trial_id", "query_id"])
        return rows.group_by("query_id").agg(pl.col("value").mean()).sort("query_id")["value"].to_numpy()

    return mean(similarity) - mean("cosine")


@pytest.fixture(scope="module")
def single(seeded):
    return cells_of(seeded, by_data_set(seeded.expected))


@pytest.mark.parametrize(
    ("test", "of_scipy"),
    [
        ("t", lambda d: stats.ttest_1samp(d, 0).pvalue),
        ("wilcoxon", lambda d: stats.wilcoxon(d, zero_method="pratt").pvalue),
        (
            "permutation",  # nq has 12 queries: all 4,096 sign flips
            lambda d: stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue,
        ),
    ],
)
def test_the_paired_test_of_a_data_set_is_scipys_and_all_are_adjusted_together(seeded, single, test, of_scipy):
    frame = significance(single, "cosine", Methods(paired_test=test, draws=FEW))
    row = picked(frame, group="nq", similarity="dot")
    found = differences(seeded, "dot", "nq")
    assert row["fixed_p"] == pytest.approx(of_scipy(found), rel=1e-6)
    assert row["d_z"] == pytest.approx(found.mean() / found.std(ddof=1))
    assert (row["d_z_unit"], row["num_queries"], row["num_seeds"]) == ("queries", 12, 3)
    known = frame.filter(pl.col("fixed_p").is_not_null())
    wanted = multipletests(known["fixed_p"].to_list(), method="holm")[1]
    assert known["adjusted_fixed_p"].to_list() == pytest.approx(list(wanted))


def test_wilcoxon_has_no_scale_over_several_parts_and_says_so(single):
    frame = significance(single, "cosine", Methods(paired_test="wilcoxon", draws=FEW))
    row = picked(frame, group="cqadupstack", similarity="dot")
    assert (row["fixed_p"], row["fixed_reason"]) == (None, SEVERAL)


@pytest.mark.parametrize("test", ["t", "permutation"])
def test_the_effect_size_of_a_group_is_over_its_data_sets(seeded, test):
    cells = cells_of(seeded)
    row = picked(
        significance(cells, "cosine", Methods(paired_test=test, draws=FEW)), group="multi_hop", similarity="qnorm"
    )
    found = [differences(seeded, "qnorm", name).mean() for name in ("hotpotqa", "musique")]
    assert row["gain"] == pytest.approx(np.mean(found))
    assert row["d_z"] == pytest.approx(np.mean(found) / np.std(found, ddof=1))
    assert (row["d_z_unit"], row["num_data_sets"]) == ("data sets", 2)
    assert row["fixed_p"] < 0.001


def test_differences_of_a_group_average_to_its_gain_with_forums_and_sizes_unlike(seeded):
    group = next(c.scores for c in cells_of(seeded) if c.group == "beir" and c.training["family"] == "bert")
    gain = paired_gain(group, "qnorm", "cosine").value
    assert group_differences(group, "qnorm", "cosine").mean() == pytest.approx(gain, abs=1e-12)
    assert data_set_gains(group, "qnorm", "cosine").mean() == pytest.approx(gain, abs=1e-12)
    assert data_set_gains(group, "qnorm", "cosine").shape == (4,)


def test_cells_drawn_side_by_side_have_the_intervals_they_have_alone(seeded):
    cells = [cell for cell in cells_of(seeded) if cell.group == "beir"]
    frame = significance(cells, "cosine", Methods(draws=FEW))
    for cell in cells:
        alone = bootstrap_group_means(replace(cell.scores, trainings=cells[0].scores.trainings), FEW)
        gain_B = alone[:, cell.scores.columns.index("qnorm")] - alone[:, cell.scores.columns.index("cosine")]
        row = frame.filter(
            pl.col("family") == cell.training["family"],
            pl.col("init_regime") == cell.training["init_regime"],
            pl.col("similarity") == "qnorm",
        ).row(0, named=True)
        low, high = np.quantile(gain_B, [0.025, 0.975])
        assert (row["bootstrap_low"], row["bootstrap_high"]) == (pytest.approx(low), pytest.approx(high))


def test_the_winner_is_the_highest_mean_and_its_lead_the_contrast_with_the_second(seeded):
    row = picked(cell_winners(cells_of(seeded)), group="in_domain")
    means = {
        name: values_of(seeded, similarity=name, group="in_domain", **WHERE).mean()
        for name in ("cosine", "dot", "qnorm", "dnorm", "learnable")
    }
    best, second = sorted(means, key=means.get, reverse=True)[:2]
    assert (row["best"], row["second"]) == (best, second)
    assert row["lead"] == pytest.approx(means[best] - means[second])
    assert row["told"] == "no"
    assert row["adjusted_p"] > 0.05
    clear = picked(cell_winners(cells_of(seeded)), group="multi_hop", init_regime="random")
    assert (clear["best"], clear["told"]) == ("cosine", "yes")


def test_one_seed_tells_of_these_seeds_only(small):
    frame = cell_winners(cells_of(small))
    told = frame.filter(pl.col("adjusted_p") <= 0.05)
    assert told.height > 0
    assert set(told["told"]) == {"these seeds only"}


def test_ranks_are_friedmans_and_data_sets_are_won_only_where_the_lead_can_be_told(seeded, single):
    row = picked(cell_ranks(cells_of(seeded), "cosine"), group="beir", similarity="learnable")
    names = ("cosine", "dot", "qnorm", "dnorm", "learnable")
    means = {}
    for data_set in ("nq", "fiqa", "hotpotqa"):
        means[data_set] = [values_of(seeded, similarity=n, data_set=data_set, **WHERE).mean() for n in names]
    forums = [
        [values_of(seeded, similarity=n, data_set=forum, **WHERE).mean() for n in names]
        for forum in ("cqadupstack/android", "cqadupstack/unix")
    ]
    scores_JC = np.array([*means.values(), np.mean(forums, axis=0)])
    statistic, p = stats.friedmanchisquare(*scores_JC.T)
    assert (row["friedman"], row["friedman_p"]) == (pytest.approx(statistic), pytest.approx(p))
    assert row["mean_rank"] == stats.rankdata(-scores_JC, axis=1).mean(axis=0)[-1]
    assert row["num_best"] == (scores_JC.argmax(axis=1) == 4).sum()
    frame = cell_ranks(cells_of(seeded), "cosine")
    assert (frame["num_won"] <= frame["num_best"]).all()
    assert frame["num_won"].sum() > 0
    assert set(frame["group"]) == {"beir", "multi_hop"}


def test_nemenyi_is_the_studentized_range(seeded):
    row = picked(cell_ranks(cells_of(seeded), "cosine", post_hoc="nemenyi"), group="beir", similarity="learnable")
    base = picked(cell_ranks(cells_of(seeded), "cosine", post_hoc="nemenyi"), group="beir", similarity="cosine")
    z = (base["mean_rank"] - row["mean_rank"]) / np.sqrt(5 * 6 / (6 * 4))
    assert row["baseline_p"] == pytest.approx(stats.studentized_range.sf(z * np.sqrt(2), 5, np.inf), rel=1e-4)
    assert base["baseline_p"] is None


def test_pairs_after_friedman_are_adjusted_over_the_pairs_of_all_groups(seeded):
    cells = [cell for cell in cells_of(seeded) if cell.num_data_sets > 1]
    frame = cell_ranks(cells, "cosine")
    raw = {}
    for cell in cells:
        own = frame.filter(*(pl.col(k).eq_missing(v) for k, v in cell.cell.items() if k in CELL))
        ranks = dict(own.select("similarity", "mean_rank").rows())
        error = np.sqrt(len(ranks) * (len(ranks) + 1) / (6 * cell.num_data_sets))
        for one, other in combinations(ranks, 2):
            raw[id(cell), one, other] = 2 * stats.norm.sf(abs(ranks[one] - ranks[other]) / error)
    adjusted = dict(zip(raw, multipletests(list(raw.values()), method="holm")[1], strict=True))
    assert len({key[0] for key in raw}) > 2
    for cell in cells:
        own = frame.filter(*(pl.col(k).eq_missing(v) for k, v in cell.cell.items() if k in CELL))
        for similarity, p in own.select("similarity", "baseline_p").rows():
            if similarity != "cosine":
                assert p == pytest.approx(adjusted[id(cell), "cosine", similarity])


def test_the_table_of_ranks_says_where_pairs_say_nothing_and_shows_nemenyis_critical_difference(seeded):
    table = TABLES["ranks"].build(seeded, TableOptions(post_hoc="nemenyi"))
    place = pl.concat_str("model", "init_regime", "group", separator="/")
    is_told = table.rows.select(place.alias("place"), told=pl.col("adjusted_p") <= 0.05).unique()
    [note] = [note for note in table.notes if note.startswith("Friedman's test finds no difference in ")]
    assert set(is_told["told"]) == {True, False}
    assert "and 1 more" in note
    assert [where for where, told in is_told.rows() if where in note and told] == []
    assert sum(where in note for where, _ in is_told.rows()) == 4
    assert "critical_difference" in [column.key for column in table.columns]
    assert "critical_difference" not in [c.key for c in TABLES["ranks"].build(seeded, TableOptions()).columns]


def test_the_spread_between_seeds_by_hand(seeded):
    row = picked(seed_spread(cells_of(seeded), "cosine"), group="in_domain", similarity="qnorm")
    table = {
        name: [values_of(seeded, similarity=name, group="in_domain", seed=s, **WHERE).mean() for s in (0, 42, 1337)]
        for name in ("qnorm", "cosine")
    }
    gain_S = np.subtract(table["qnorm"], table["cosine"])
    assert row["score_std"] == pytest.approx(np.std(table["qnorm"], ddof=1))
    assert (row["score_min"], row["score_max"]) == (
        pytest.approx(min(table["qnorm"])),
        pytest.approx(max(table["qnorm"])),
    )
    assert row["seed_std"] == pytest.approx(gain_S.std(ddof=1))
    assert row["seeds"] == "0 42 1337"
    needed = row["num_needed"]
    assert power_of(needed, 0.01, row["seed_std"]) >= 0.8 > power_of(needed - 1, 0.01, row["seed_std"])
    assert row["num_short"] == max(needed - 3, 0)
    errors = np.array([row["seeds_error"], row["queries_error"], row["rest_error"]])
    gain = next(
        c.scores for c in cells_of(seeded) if c.group == "in_domain" and c.training["init_regime"] == "finetune"
    )
    assert (errors**2).sum() == pytest.approx(paired_gain(gain, "qnorm", "cosine").standard_error ** 2)
    assert row["seed_share"] == pytest.approx(errors[0] ** 2 / (errors**2).sum())


def test_one_seed_has_no_spread_and_needs_an_unknown_number(small):
    rows = seed_spread(cells_of(small), "cosine")
    assert rows.select(pl.col("score_std", "seed_std", "num_needed").null_count()).row(0) == (rows.height,) * 3
    assert rows["score_min"].null_count() == 0


@pytest.mark.parametrize(
    ("p", "sources", "stars"),
    [
        (0.05, "seeds and queries", "*"),
        (0.0501, "seeds and queries", ""),
        (0.01, "seeds and queries", "**"),
        (0.001, "seeds and queries", "***"),
        (0.001, "these seeds only", "(***)"),
        (0.9, "these seeds only", ""),
        (None, None, ""),
    ],
)
def test_marks(p, sources, stars):
    assert mark({"adjusted_p": p, "sources": sources}) == stars
