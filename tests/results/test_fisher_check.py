"""Calls from probe rows, and verdicts on them, case by case."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from orchestrator.open_sources import open_sources
from results.collect import collect
from results.fisher_check import PROBE_MISSING, fisher_check
from results.layout import SWEEP_RECORD, probe_rows, to_bytes
from results.predictions import PREDICTORS, needs_pilots, predictions
from results.rows import write_rows
from results.schemas import make_table
from results.scores import ROWS_MISSING
from results.selection import SelectionError
from results.sources import collect_source
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, failed, probe, probe_rows_of, trained, two_queries


def probe_frame(differences, half_width=0.05, **changes):
    rows = [row for rank, d in differences.items() for row in probe_rows_of(probe(), rank, 2.0, d, half_width)]
    return pl.from_arrow(make_table("probes", [{**row, **changes} for row in rows]))


@pytest.mark.parametrize(
    ("differences", "half_width", "call"),
    [
        ({8: -0.2, 16: -0.1, 32: -0.3}, 0.05, "qnorm"),
        ({8: 0.2, 16: 0.1}, 0.05, "dnorm"),
        ({8: -0.2, 16: 0.1}, 0.05, "undecided"),  # the sign changes over the grid
        ({8: -0.2, 16: -0.01}, 0.05, "undecided"),  # one interval holds 0
        ({8: -0.2, 16: -0.05}, 0.05, "undecided"),  # one interval reaches 0
        ({8: -0.2}, 0.05, "qnorm"),
        ({8: 0.0}, 0.0, "undecided"),
    ],
)
def test_a_call_needs_one_sign_over_the_whole_grid(differences, half_width, call):
    prediction = PREDICTORS["fisher_condition"].predict(probe_frame(differences, half_width))
    assert prediction.call == call
    assert prediction.difference == (min(differences.values()), max(differences.values()))
    assert prediction.low == pytest.approx(min(differences.values()) - half_width)
    assert prediction.high == pytest.approx(max(differences.values()) + half_width)


def test_without_interval_nothing_is_called():
    rows = probe_frame({8: -0.2, 16: -0.3}).with_columns(low=pl.when(pl.col("rank") == 8).then(None).otherwise("low"))
    assert PREDICTORS["fisher_condition"].predict(rows).call == "undecided"
    assert PREDICTORS["fisher_condition"].predict(rows).low is None


def test_other_blocks_and_statistics_are_not_read():
    wrong = [probe_frame({8: 0.9}, block="embedding_query"), probe_frame({8: 0.9}, statistic="trace")]
    rows = pl.concat([probe_frame({8: -0.2}), *wrong])
    prediction = PREDICTORS["fisher_condition"].predict(rows)
    assert prediction.call == "qnorm"
    assert prediction.dnorm == (2.2, 2.2)


def test_a_probe_without_the_difference_is_undecided_and_says_why():
    found = predictions(probe_frame({8: 0.9}, statistic="trace")).row(0, named=True)
    assert found["call"] == "undecided"
    assert "log10_kappa" in found["reason"]


# The rows that each predictor reads: block, statistic, and whether they are of sides.
READS = {
    "fisher_condition": ("embedding", "log10_kappa", True),
    "cohen_d": ("norms", "cohen_d", False),
    "effective_rank": ("space", "log10_effective_rank", True),
    "query_norm_variation": ("pilot_norms", "log10_cv_ratio", False),
    "pilot": ("pilot", "score", True),
}


def rows_for(name, difference, **changes):
    """One probe's rows of what the predictor reads."""
    block, statistic, of_sides = READS[name]
    rows = probe_frame({8: difference}, block=block, statistic=statistic, **changes)
    if of_sides:
        return rows
    return rows.filter(pl.col("similarity") == "qnorm-dnorm").with_columns(similarity=pl.lit(None, pl.String))


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_gives_one_row_per_probe_and_calls_its_positive_side(name):
    other = {"probe_id": "other", "init_regime": "random", "seed": 1}
    found = predictions(pl.concat([rows_for(name, 0.3), rows_for(name, -0.3, **other)]))
    found = found.filter(pl.col("predictor") == name)
    assert found["init_regime"].to_list() == ["finetune", "random"]
    positive = PREDICTORS[name].positive
    assert found["call"].to_list() == [positive, {"qnorm": "dnorm", "dnorm": "qnorm"}[positive]]


@pytest.mark.parametrize("name", PREDICTORS)
def test_no_predictor_calls_where_its_interval_holds_0_or_is_absent(name):
    assert PREDICTORS[name].predict(rows_for(name, 0.01)).call == "undecided"
    without = rows_for(name, 0.3).with_columns(low=pl.lit(None, pl.Float64))
    assert PREDICTORS[name].predict(without).call == "undecided"


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_says_where_it_is_from_what_it_needs_and_costs(name):
    predictor = PREDICTORS[name]
    assert all((predictor.rule, predictor.source, predictor.needs, predictor.costs, predictor.statistic))
    assert predictor.block == READS[name][0]
    assert ("our own reading" in predictor.source) == (name != "fisher_condition")


@pytest.mark.parametrize("name", PREDICTORS)
def test_what_is_not_there_is_undecided_of_a_probe_and_missing_of_pilots(name):
    found = PREDICTORS[name].predict(probe_frame({8: 0.3}, block="gamma"))
    assert found.call == (None if needs_pilots(name) else "undecided")
    assert found.reason


@pytest.fixture
def folder(tmp_path):
    evaluations = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations)


def per_query(values):
    """A score function from values by data set."""
    return lambda data_set, _: values.get(data_set, [0.5, 0.5])


def check(folder, **options):
    collected = collect(folder.store, folder.record())
    groups = collected.record.primary_groups
    scores = (collected.data_set_scores, collected.query_scores)
    return fisher_check(collected.probes, *scores, collected.expected, primary_groups=groups, **options)


def primary(folder, **options):
    return check(folder, **options).filter("is_primary")


def sides(folder, qnorm, dnorm, **spec):
    folder.add_trial(trained("qnorm", **spec), two_queries(qnorm))
    folder.add_trial(trained("dnorm", **spec), two_queries(dnorm))


@pytest.mark.parametrize(
    ("difference", "qnorm", "dnorm", "winner", "verdict"),
    [
        (-0.2, 0.4, 0.3, "qnorm", "hit"),
        (-0.2, 0.3, 0.4, "dnorm", "miss"),
        (0.2, 0.3, 0.4, "dnorm", "hit"),
        (0.2, 0.4, 0.3, "qnorm", "miss"),
        (0.01, 0.4, 0.3, "qnorm", "undecided"),
        (0.2, 0.3, 0.3, "tie", "tie"),
    ],
)
def test_verdicts(folder, difference, qnorm, dnorm, winner, verdict):
    """The other side wins in domain, which is no primary group."""
    sides(folder, (dnorm, qnorm), (qnorm, dnorm))
    folder.add_probe(probe(), {16: difference})
    found = check(folder).row(0, named=True)
    assert (found["winner"], found["verdict"], found["reason"]) == (winner, verdict, None)
    assert found["qnorm_score"] == pytest.approx(qnorm)
    assert found["dnorm_score"] == pytest.approx(dnorm)


def test_the_winner_has_the_higher_unweighted_mean_of_the_primary_groups(folder):
    folder.primary_groups = ("in_domain", "out_of_domain")
    sides(folder, (0.2, 0.5), (0.4, 0.35))  # means .35 and .375, though qnorm leads out of domain
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert (found["qnorm_score"], found["dnorm_score"]) == pytest.approx((0.35, 0.375))
    assert (found["winner"], found["verdict"]) == ("dnorm", "miss")


def test_a_side_that_the_sweep_does_not_train_is_not_run(folder):
    folder.add_trial(trained("qnorm"), two_queries((0.5, 0.3)))
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert (found["verdict"], found["winner"], found["dnorm_score"]) == ("not run", None, None)
    assert (found["call"], found["qnorm_score"]) == ("qnorm", pytest.approx(0.3))
    assert found["reason"] == "the sweep does not train dnorm here"


def test_a_failed_side_is_a_hole_and_not_called_not_run(folder):
    folder.add_trial(trained("qnorm"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert (found["verdict"], found["reason"]) == (None, ROWS_MISSING)


def test_a_missing_probe_is_a_hole(folder):
    sides(folder, (0.5, 0.3), (0.5, 0.2))
    folder.fail_probe(probe(), "out of memory")
    found = check(folder).row(0, named=True)
    assert (found["call"], found["verdict"], found["reason"]) == (None, None, PROBE_MISSING)
    assert found["winner"] == "qnorm"


def test_seeds_are_averaged_where_weights_are_not_random(folder):
    sides(folder, (0.5, 0.2), (0.5, 0.3), seed=0)
    sides(folder, (0.5, 0.6), (0.5, 0.3), seed=1)
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert (found["qnorm_score"], found["dnorm_score"]) == pytest.approx((0.4, 0.3))
    assert (found["verdict"], found["num_seeds"], found["seed"]) == ("tie", 2, None)  # the seeds disagree


def test_a_probe_of_random_weights_is_held_against_its_own_seed(folder):
    sides(folder, (0.5, 0.2), (0.5, 0.3), seed=0, init_regime="random")
    sides(folder, (0.5, 0.6), (0.5, 0.3), seed=1, init_regime="random")
    for seed in (0, 1):
        folder.add_probe(probe(init_regime="random", seed=seed), {16: -0.2})
    frame = primary(folder)
    assert frame.select("seed", "winner", "verdict").rows() == [(0, "dnorm", "miss"), (1, "qnorm", "hit")]


def test_sides_with_unlike_seeds_are_not_compared(folder):
    sides(folder, (0.5, 0.2), (0.5, 0.3), seed=0)
    folder.add_trial(trained("qnorm", seed=1), two_queries((0.5, 0.6)))
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert (found["verdict"], found["reason"]) == (None, "qnorm and dnorm have different seeds")


def test_each_training_data_set_has_its_own_row(folder):
    sides(folder, (0.5, 0.4), (0.5, 0.3))
    sides(folder, (0.5, 0.1), (0.5, 0.3), data="conala")
    folder.add_probe(probe(), {16: -0.2})
    folder.add_probe(probe(data="conala"), {16: -0.2})
    assert primary(folder).select("training_data", "verdict").rows() == [("attack", "hit"), ("conala", "miss")]
    assert primary(folder, where={"training_data": "conala"})["verdict"].to_list() == ["miss"]


def test_a_hyperparameter_axis_is_refused(folder):
    folder.add_trial(trained("qnorm", learning_rate=1e-4), two_queries((0.5, 0.4)))
    folder.add_trial(trained("qnorm", learning_rate=2e-4), two_queries((0.5, 0.4)))
    with pytest.raises(SelectionError, match=r"--where learning_rate=0\.0001"):
        check(folder)


def test_the_small_sweep(small_folder):
    frame = primary(small_folder)
    assert frame.select("family", "init_regime", "call", "winner", "verdict").rows() == [
        ("minilm", "finetune", "qnorm", "qnorm", "hit"),
        ("minilm", "random", "qnorm", "dnorm", "miss"),
        ("smollm2", "from_base", "undecided", None, "not run"),
    ]


def test_probe_rows_of_another_scale_are_not_used(folder):
    sides(folder, (0.5, 0.4), (0.5, 0.3))
    spec = probe(scale=50.0)
    key = folder.add_probe(spec, None)
    write_rows(folder.store, probe_rows(key), "probes", list(probe_rows_of(spec, 16, 2.0, -0.2, 0.05)))
    assert primary(folder)["call"].to_list() == [None]


DRAWN = np.random.default_rng(7)
QNORM, DNORM = DRAWN.uniform(0.2, 0.6, 40), DRAWN.uniform(0.1, 0.5, 40)
OTHERS = DRAWN.uniform(0.2, 0.6, (2, 25))


def test_the_interval_of_one_seed_and_data_set_is_that_of_a_paired_t_test(folder):
    folder.add_trial(trained("qnorm"), per_query({"pydoc_small": QNORM}))
    folder.add_trial(trained("dnorm"), per_query({"pydoc_small": DNORM}))
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    expected = stats.ttest_rel(QNORM, DNORM)
    interval = expected.confidence_interval(0.95)
    assert (found["gain"], found["gain_p"]) == pytest.approx(((QNORM - DNORM).mean(), expected.pvalue))
    assert (found["gain_low"], found["gain_high"]) == pytest.approx((interval.low, interval.high))
    assert (found["winner"], found["verdict"], found["sources"]) == ("qnorm", "hit", "these seeds only")


def test_sides_that_cannot_be_told_apart_are_a_tie(folder):
    noise = np.tile([0.3, -0.3], 20)
    folder.add_trial(trained("qnorm"), per_query({"pydoc_small": QNORM + noise + 0.02}))
    folder.add_trial(trained("dnorm"), per_query({"pydoc_small": QNORM}))
    folder.add_probe(probe(), {16: -0.2})
    found = check(folder).row(0, named=True)
    assert found["gain"] == pytest.approx(0.02)
    assert found["gain_low"] < 0 < found["gain_high"]
    assert (found["call"], found["winner"], found["verdict"]) == ("qnorm", "tie", "tie")


def test_each_group_has_a_verdict_and_several_primary_groups_their_unweighted_mean(tmp_path):
    data = (evaluation("a", "in_domain"), evaluation("b", "bright"), evaluation("c", "beir"), evaluation("d", "beir"))
    store = open_store(str(tmp_path / "sweep"))
    folder = SweepFolder(store=store, evaluations=data, primary_groups=("bright", "beir"))
    qnorm = {"a": QNORM - 0.2, "b": QNORM, "c": OTHERS[0], "d": OTHERS[1]}
    dnorm = {"a": QNORM, "b": DNORM, "c": OTHERS[1], "d": OTHERS[0] + 0.01 * QNORM[:25]}
    folder.add_trial(trained("qnorm"), per_query(qnorm))
    folder.add_trial(trained("dnorm"), per_query(dnorm))
    folder.add_probe(probe(), {16: -0.2})
    rows = check(folder)
    assert rows.select("group", "is_primary").rows() == [
        ("primary", True),
        ("in_domain", False),
        ("bright", False),
        ("beir", False),
    ]
    assert rows.filter(pl.col("group") == "in_domain")["verdict"].to_list() == ["miss"]
    found = rows.row(0, named=True)
    differences = {name: qnorm[name] - dnorm[name] for name in "bcd"}
    weights = {"b": 0.5, "c": 0.25, "d": 0.25}
    assert found["gain"] == pytest.approx(sum(weights[n] * differences[n].mean() for n in "bcd"))
    # Independent means of different sizes: Welch and Satterthwaite.
    parts = {n: weights[n] ** 2 * differences[n].var(ddof=1) / len(differences[n]) for n in "bcd"}
    error = sum(parts.values()) ** 0.5
    df = error**4 / sum(parts[n] ** 2 / (len(differences[n]) - 1) for n in "bcd")
    half = stats.t.ppf(0.975, df) * error
    assert (found["gain_low"], found["gain_high"]) == pytest.approx((found["gain"] - half, found["gain"] + half))


@pytest.mark.parametrize("trained_on", [("beir",), ("in_domain",)])
def test_a_cell_that_lacks_a_declared_group_has_no_primary_verdict(tmp_path, trained_on):
    """Two sweeps: one declares and evaluates both groups, the other trains both sides and evaluates a part of them."""
    data = {name: evaluation(name, name) for name in ("beir", "bright", "in_domain")}
    declares = SweepFolder(
        store=open_store(str(tmp_path / "a")), evaluations=tuple(data.values()), primary_groups=("beir", "bright")
    )
    declares.add_trial(trained("cosine"), per_query(dict.fromkeys(data, DNORM)))
    trains = SweepFolder(
        store=open_store(str(tmp_path / "b")),
        evaluations=tuple(data[name] for name in trained_on),
        primary_groups=trained_on,
    )
    for similarity, values in (("qnorm", QNORM), ("dnorm", DNORM)):
        trains.add_trial(trained(similarity), per_query(dict.fromkeys(trained_on, values)))
    trains.add_probe(probe(), {16: -0.2})
    for folder in (declares, trains):
        folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    collected = collect_source(open_sources([str(tmp_path / "a"), str(tmp_path / "b")]))
    table = TABLES["fisher_check"].build(collected, TableOptions())
    lacking = ", ".join(name for name in ("beir", "bright") if name not in trained_on)
    reason = f"the sweep does not evaluate both sides on {lacking} here"
    row = table.rows.row(0, named=True)
    assert (row["group"], row["is_primary"], row["verdict"], row["gain"]) == ("primary", True, "not run", None)
    assert row["reason"] == reason
    assert any(note.startswith("No verdict in ") and note.endswith(f"primary: {reason}.") for note in table.notes)
    assert table.holes == ()
    own = table.rows.filter(pl.col("group") == trained_on[0])
    assert own.select("verdict", "is_primary").rows() == [("hit", False)]


def test_without_primary_groups_there_is_no_primary_verdict(folder):
    folder.primary_groups = ()
    sides(folder, (0.5, 0.3), (0.5, 0.2))
    folder.add_probe(probe(), {16: -0.2})
    assert set(check(folder)["is_primary"]) == {False}


def test_primary_groups_of_different_measures_are_not_averaged_and_each_keeps_its_verdict(tmp_path):
    data = (evaluation("a", "bright"), evaluation("b", "web", main_measure="RR@10"))
    store = open_store(str(tmp_path / "sweep"))
    folder = SweepFolder(store=store, evaluations=data, primary_groups=("bright", "web"))
    folder.add_trial(trained("qnorm"), per_query({"a": QNORM, "b": DNORM}))
    folder.add_trial(trained("dnorm"), per_query({"a": DNORM, "b": QNORM}))
    folder.add_probe(probe(), {16: -0.2})
    rows = check(folder)
    assert rows.select("group", "measure", "verdict").rows() == [
        ("primary", None, None),
        ("bright", "nDCG@10", "hit"),
        ("web", "RR@10", "miss"),
    ]
    assert rows["qnorm_score"][0] is None
    assert "different main measures (RR@10, nDCG@10)" in rows["reason"][0]
    table = TABLES["fisher_check"].build(collect(store, folder.record()), TableOptions())
    assert table.holes == ()
    assert any(note.startswith("No primary verdict") for note in table.notes)


def test_rows_name_the_trials_behind_them(folder):
    ids = [folder.add_trial(trained(s), two_queries((0.5, 0.3))) for s in ("qnorm", "dnorm", "cosine")]
    folder.add_probe(probe(), {16: -0.2})
    assert check(folder)["trial_ids"][0] == "; ".join(ids[:2])
