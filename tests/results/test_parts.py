"""Data sets of several parts, such as CQADupStack of 12 forums: averaged to one first, by hand in every table."""

import polars as pl
import pytest

from orchestrator.mirror import Mirror
from results.collect import collect
from results.fisher_check import fisher_check
from results.gains import gains
from results.rag import rag_scores
from results.scores import ROWS_MISSING
from results.store import open_store
from results.sts import sts_scores
from results.tables import TABLES, TableOptions
from search_spaces.catalogue.data_sets import PARTS, SPEARMAN
from tests.results.builders import SweepFolder, evaluation, probe, trained, untrained

FORUMS = PARTS["cqadupstack"]
FORUM_SCORE = {name: (number + 1) / 100 for number, name in enumerate(FORUMS)}  # 0.01 to 0.12, on average 0.065
GIVEN = {"nq": 0.5, "fiqa": 0.235, **FORUM_SCORE}
BY_HAND = (0.065 + 0.5 + 0.235) / 3  # 0.2667; a mean over all 14 would be 0.1082


@pytest.fixture
def folder(tmp_path):
    members = [evaluation(name, "beir", part_of="cqadupstack") for name in FORUMS]
    return SweepFolder(
        store=open_store(str(tmp_path / "sweep")),
        evaluations=(evaluation("nq", "beir"), *members, evaluation("fiqa", "beir")),
        primary_groups=("beir",),
    )


def forum_scores(data_set, _):
    return [GIVEN[data_set]]


def half_of_them(data_set, _):
    return [GIVEN[data_set] / 2]


def add_cell(folder, qnorm=forum_scores):
    folder.add_trial(trained("cosine"), half_of_them)
    folder.add_trial(trained("dnorm"), half_of_them)
    folder.add_trial(untrained(), half_of_them)
    return folder.add_trial(trained("qnorm"), qnorm)


def without_one_forum(data_set, _):
    return None if data_set == FORUMS[3] else [0.9]


def test_the_forums_count_as_one_data_set_of_the_group(folder):
    add_cell(folder)
    collected = collect(folder.store, folder.record())
    found = gains(collected.data_set_scores, collected.expected)
    qnorm = found.row(by_predicate=(pl.col("similarity") == "qnorm") & (pl.col("kind") == "train"), named=True)
    assert qnorm["score"] == pytest.approx(BY_HAND, abs=1e-15)
    assert qnorm["baseline_score"] == pytest.approx(BY_HAND / 2, abs=1e-15)
    assert qnorm["untrained_score"] == pytest.approx(BY_HAND / 2, abs=1e-15)
    assert qnorm["num_data_sets"] == 3


def test_a_missing_forum_is_told_and_leaves_the_whole_without_a_value(folder):
    add_cell(folder, qnorm=without_one_forum)
    collected = collect(folder.store, folder.record())
    found = gains(collected.data_set_scores, collected.expected)
    qnorm = found.row(by_predicate=(pl.col("similarity") == "qnorm") & (pl.col("kind") == "train"), named=True)
    assert (qnorm["score"], qnorm["gain"], qnorm["reason"]) == (None, None, ROWS_MISSING)
    [lost] = collected.missing
    assert lost.what == f"{FORUMS[3]}/test scored with qnorm"
    assert TABLES["gains"].build(collected, TableOptions()).holes == (str(lost),)


def test_the_winner_of_the_fisher_check_is_decided_by_it(folder):
    """Means over all 14 would have dnorm win: it is a little better on each forum, and worse on one data set."""

    def dnorm(data_set, _):
        return [{"nq": 0.4, "fiqa": 0.235}.get(data_set, FORUM_SCORE.get(data_set, 0) + 0.02)]

    folder.add_trial(trained("qnorm"), forum_scores)
    folder.add_trial(trained("dnorm"), dnorm)
    folder.add_probe(probe(), {8: -0.5})
    collected = collect(folder.store, folder.record())
    [row] = fisher_check(
        collected.probes,
        collected.data_set_scores,
        collected.query_scores,
        collected.expected,
        primary_groups=("beir",),
    ).iter_rows(named=True)
    assert row["qnorm_score"] == pytest.approx(BY_HAND, abs=1e-15)
    assert row["dnorm_score"] == pytest.approx((0.085 + 0.4 + 0.235) / 3, abs=1e-15)
    assert row["gain"] > 0
    assert row["winner"] == "tie"  # forums of one query each: nothing says how far it can be trusted


def test_the_gain_table_lists_the_parts(folder):
    add_cell(folder)
    notes = " ".join(TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions()).notes)
    assert f"beir: nq, cqadupstack (mean of its 12 parts {', '.join(FORUMS)}), fiqa." in notes


def test_a_whole_without_all_of_its_parts_says_so(tmp_path):
    some = tuple(evaluation(name, "forums", part_of="cqadupstack") for name in FORUMS[:2])
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=some)
    folder.add_trial(trained("cosine"), forum_scores)
    notes = " ".join(TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions()).notes)
    assert f"cqadupstack (mean of 2 of its 12 parts {FORUMS[0]}, {FORUMS[1]})" in notes


def test_mlflow_shows_the_whole_and_its_groups_mean(folder):
    key = add_cell(folder)
    metrics = Mirror(folder.store, folder.record()).content(key).metrics
    shown = {name: value for name, value in metrics.items() if name.startswith("nDCG_10/")}
    assert shown == pytest.approx(
        {
            "nDCG_10/group.beir": BY_HAND,
            "nDCG_10/cqadupstack": 0.065,
            "nDCG_10/nq": 0.5,
            "nDCG_10/fiqa": 0.235,
        }
    )


def test_mlflow_shows_no_whole_that_lacks_a_part(folder):
    key = add_cell(folder, qnorm=without_one_forum)
    metrics = Mirror(folder.store, folder.record()).content(key).metrics
    assert {name for name in metrics if name.startswith("nDCG_10/")} == {"nDCG_10/nq", "nDCG_10/fiqa"}


def test_scored_pairs_of_several_parts_are_one_row(tmp_path):
    """Orders of 4 pairs with Spearman 1, 0.8 and -1 to the rising ratings."""
    parts = [evaluation(f"sts12-{name}", "sts", main_measure=SPEARMAN, part_of="sts12") for name in ("a", "b")]
    folder = SweepFolder(
        store=open_store(str(tmp_path)),
        evaluations=(*parts, evaluation("stsb", "sts", main_measure=SPEARMAN)),
        primary_groups=(),
    )
    up, nearly, down = [1, 2, 3, 4], [1, 2, 4, 3], [4, 3, 2, 1]
    orders = {"sts12-a": (up, up), "sts12-b": (nearly, up), "stsb": (down, up)}
    folder.add_trial(trained("cosine"), lambda data_set, _: orders[data_set])
    folder.add_trial(untrained(), lambda data_set, _: orders[data_set])
    collected = collect(folder.store, folder.record())
    found = sts_scores(collected.correlations, collected.expected_sts)
    values = {row["data_set"]: (row["forward"], row["num_scored_pairs"]) for row in found.iter_rows(named=True)}
    assert values == {
        "sts12": (pytest.approx(0.9), 8),
        "stsb": (pytest.approx(-1), 4),
        None: (pytest.approx(-0.05), 12),
    }
    table = TABLES["sts"].build(collected, TableOptions())
    assert (
        "Of several parts, whose unweighted mean is shown: sts12 (mean of its 2 parts sts12-a, sts12-b)." in table.notes
    )


@pytest.mark.parametrize("lost", [None, "forum-b"])
def test_answers_to_the_parts_of_a_data_set_are_one_row(tmp_path, lost):
    parts = tuple(evaluation(f"forum-{n}", reader="r", num_passages=2, part_of="forums") for n in "ab")
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=parts, primary_groups=())
    f1 = {"forum-a": [1.0, 0.0, 0.0], "forum-b": [1.0]}
    folder.add_trial(trained("cosine"), lambda data_set, _: None if data_set == lost else f1[data_set])
    collected = collect(folder.store, folder.record())
    [row] = rag_scores(collected.answers, collected.expected_answers).iter_rows(named=True)
    expected = ("forums", pytest.approx(2 / 3), 4) if lost is None else ("forums", None, None)
    assert (row["data_set"], row["f1"], row["num_questions"]) == expected
    notes = TABLES["rag"].build(collected, TableOptions()).notes
    assert "Of several parts, whose unweighted mean is shown: forums (mean of its 2 parts forum-a, forum-b)." in notes
