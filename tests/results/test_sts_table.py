"""Correlations of scored pairs: held against scipy, averaged, both orders, and what is missing."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from results.collect import collect
from results.selection import SelectionError
from results.spearman import spearman
from results.store import open_store
from results.sts import sts_scores
from results.tables import TABLES, TableOptions, applicable
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import PAIRS, SweepFolder, evaluation, failed, trained, two_queries, untrained


def rows(score, gold, **key):
    size = len(score)
    constant = {"checkpoint_hash": "c", "data_set": "stsb", "data_hash": "h", "split": "test"}
    constant |= {"score_similarity": "cosine", "order": "forward"} | key
    columns = {name: [value] * size for name, value in constant.items()}
    return pl.DataFrame({**columns, "pair_id": [f"p{i}" for i in range(size)], "score": score, "gold": gold})


@pytest.fixture
def folder(tmp_path):
    evaluations = (evaluation("stsb", "sts", main_measure=SPEARMAN), evaluation("sickr", "sts", main_measure=SPEARMAN))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations, primary_groups=())


def pairs(by_data_set):
    return lambda data_set, scored_with: by_data_set.get(data_set)


def scores(folder, **options):
    collected = collect(folder.store, folder.record())
    return sts_scores(collected.correlations, collected.expected_sts, **options)


@pytest.mark.parametrize("levels", [3, 6, 1000])
def test_the_correlation_is_scipys_with_and_without_ties(levels):
    generator = np.random.default_rng(levels)
    gold = generator.integers(levels, size=400) / levels
    score = np.round(gold + generator.normal(size=400), 1)
    [found] = spearman(rows(score.tolist(), gold.tolist()))["spearman"]
    assert found == pytest.approx(spearmanr(score, gold).statistic, abs=1e-12)


def test_each_order_similarity_and_data_set_is_ranked_by_itself():
    generator = np.random.default_rng(0)
    parts = {
        (order, data_set): rows(generator.normal(size=50), generator.uniform(size=50), order=order, data_set=data_set)
        for order in ("forward", "swapped")
        for data_set in ("stsb", "sickr")
    }
    shuffled = pl.concat(parts.values()).sample(fraction=1, shuffle=True, seed=1)
    found = {(row["order"], row["data_set"]): row["spearman"] for row in spearman(shuffled).iter_rows(named=True)}
    assert found == pytest.approx({key: spearmanr(p["score"], p["gold"]).statistic for key, p in parts.items()})


@pytest.mark.parametrize("score", [[1.0, 1.0, 1.0], [0.1, float("nan"), 0.2], [0.1, float("inf"), 0.2]])
def test_what_has_no_correlation_is_absent(score):
    assert spearman(rows(score, [0.0, 0.5, 1.0]))["spearman"].to_list() == [None]
    assert spearman(rows(score[:1], [0.5]))["spearman"].to_list() == [None]


def test_orders_seeds_and_data_sets_are_averaged_by_themselves(folder):
    line, first = [1, 2, 3, 4, 5], {"stsb": ([3, 2, 1, 4, 5], [1, 2, 3, 4, 5])}
    folder.add_trial(trained("qnorm", seed=0), pairs({**first, "sickr": (line, line)}))
    folder.add_trial(trained("qnorm", seed=1), pairs({"stsb": (line, line), "sickr": (line, line)}))
    folder.add_trial(untrained(), pairs({"stsb": (line[::-1], line), "sickr": (line, line)}))
    found = {row["data_set"]: row for row in scores(folder).iter_rows(named=True)}
    assert (found["stsb"]["forward"], found["stsb"]["swapped"]) == pytest.approx((0.8, 1.0))
    assert found["stsb"]["untrained"] == pytest.approx(-1.0)
    assert found["stsb"]["num_seeds"] == 2
    # The group's mean over its data sets, of the trained and of the untrained checkpoint.
    assert (found[None]["forward"], found[None]["untrained"]) == pytest.approx((0.9, 0.0))


def test_a_missing_evaluation_is_a_hole_and_leaves_the_mean_empty(folder):
    folder.add_trial(trained("cosine"), pairs({"stsb": PAIRS["cosine"]}))
    folder.plan_trial(trained("qnorm"), status=failed("out of memory"))
    collected = collect(folder.store, folder.record())
    found = scores(folder).filter(pl.col("similarity") == "cosine")
    assert dict(found.select("data_set", "forward").iter_rows()) == {"stsb": 1.0, "sickr": None, None: None}
    holes = TABLES["sts"].build(collected, TableOptions()).holes
    assert any("cosine/s0: sickr/test scored with cosine" in hole for hole in holes)
    assert any("qnorm/s0: whole trial: failed: out of memory" in hole for hole in holes)


def test_scores_of_other_similarities_have_rows_of_their_own(folder):
    key = folder.add_trial(trained("qnorm"), pairs({"stsb": PAIRS["qnorm"], "sickr": PAIRS["qnorm"]}))
    folder.plan_evaluations(key, score_similarities="all")
    for planned in folder.evaluations:
        folder.write_pairs(key, planned, "cosine", PAIRS["cosine"])
    found = scores(folder).filter(pl.col("data_set") == "stsb")
    assert found.select("similarity", "score_similarity", "rank").rows() == [
        ("qnorm", "cosine", None),
        ("qnorm", "qnorm", 1),
    ]
    table = TABLES["sts"].build(collect(folder.store, folder.record()), TableOptions())
    assert "scored with" in [column.header for column in table.columns]


def test_two_training_data_sets_are_not_pooled_unless_asked_for(folder):
    for data in ("stsb", "all_nli"):
        folder.add_trial(trained("cosine", data=data), pairs({"stsb": PAIRS["cosine"], "sickr": PAIRS["cosine"]}))
    with pytest.raises(SelectionError, match="more than one training data set"):
        scores(folder)
    assert scores(folder, pool=True)["training_data"].unique().to_list() == ["all_nli + stsb"]
    assert scores(folder, where={"training_data": "stsb"}).height == 3


def test_pairs_never_enter_the_gain_table_and_tables_know_what_they_have(small, folder):
    assert set(TABLES["gains"].build(small, TableOptions()).rows["group"]) == {"in_domain", "out_of_domain"}
    assert applicable(small.record) == tuple(name for name in TABLES if name != "ranks")
    assert applicable(folder.record()) == ("sts", "cost", "missing")
    retrieval = SweepFolder(store=folder.store, evaluations=(evaluation("attack", "in_domain"),))
    retrieval.add_trial(trained("cosine"), two_queries((0.5, 0.5)))
    assert set(applicable(retrieval.record())) == {
        name
        for name in TABLES
        if name not in ("ranks", "predictions", "sts", "rag", "rag_gains", "learned_gamma", "magnitude_correlation")
        and not name.startswith("fisher")
    }
