"""Gains of answers: McNemar and paired t against statsmodels and scipy, seeds, parts, and what is missing."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from results.collect import collect
from results.rag_gains import NO_ANSWER_DIFFERS, OF_PARTS, rag_gains
from results.selection import SelectionError
from results.statistics.paired_tests import ALL_EQUAL
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, failed, trained

DRAWN = np.random.default_rng(11)
COSINE, QNORM, DOT = (
    DRAWN.choice([0.0, 0.25, 0.5, 1.0], size=60, p=p) for p in ([0.5, 0.2, 0.1, 0.2],) * 2 + ([0.2, 0.1, 0.1, 0.6],)
)


@pytest.fixture
def folder(tmp_path):
    data = (evaluation("questions", reader="tiny-reader", num_passages=2),)
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data, primary_groups=())


def gains(folder, **options):
    collected = collect(folder.store, folder.record())
    rows = rag_gains(collected.answers, collected.expected_answers, **options)
    return {row["similarity"]: row for row in rows.iter_rows(named=True)}


def test_one_seed_is_tested_by_exact_mcnemar_and_paired_t(folder):
    for similarity, f1 in (("cosine", COSINE), ("qnorm", QNORM), ("dot", DOT)):
        folder.add_trial(trained(similarity), lambda _, __, f1=f1: f1)
    found = gains(folder)
    assert set(found) == {"qnorm", "dot"}
    for similarity, f1 in (("qnorm", QNORM), ("dot", DOT)):
        row, right, base = found[similarity], f1 == 1, COSINE == 1
        table = [[(right & base).sum(), (right & ~base).sum()], [(~right & base).sum(), (~right & ~base).sum()]]
        assert (row["num_better"], row["num_worse"]) == (table[0][1], table[1][0])
        assert row["exact_match_p"] == pytest.approx(mcnemar(table, exact=True).pvalue)
        test = stats.ttest_rel(f1, COSINE)
        assert (row["f1_gain"], row["f1_p"]) == pytest.approx(((f1 - COSINE).mean(), test.pvalue))
        interval = test.confidence_interval(0.95)
        assert (row["f1_low"], row["f1_high"]) == pytest.approx((interval.low, interval.high))
        assert row["exact_match_gain"] == pytest.approx(right.mean() - base.mean())
        assert (row["num_questions"], row["num_seeds"], row["sources"]) == (60, 1, "these seeds only")
    rows = list(found.values())
    ps = [row[f"{measure}_p"] for measure in ("exact_match", "f1") for row in rows]
    adjusted = [row[f"{measure}_adjusted_p"] for measure in ("exact_match", "f1") for row in rows]
    assert adjusted == pytest.approx(list(multipletests(ps, method="holm")[1]))


def test_of_several_seeds_a_question_counts_once(folder):
    """The same answers of three seeds are no more evidence than those of one."""
    right, wrong = np.array([1.0] * 6 + [0.0] * 4), np.array([0.0] * 5 + [1.0] + [0.0] * 4)
    for seed in (0, 1, 2):
        folder.add_trial(trained("cosine", seed=seed), lambda *_: wrong)
        folder.add_trial(trained("qnorm", seed=seed), lambda *_: right)
    row = gains(folder)["qnorm"]
    assert (row["num_better"], row["num_worse"], row["num_seeds"]) == (15, 0, 3)
    assert row["exact_match_p"] == pytest.approx(2 * 0.5**5)  # five questions, all one way
    assert row["sources"] == "seeds and queries"


def test_parts_are_averaged_and_have_no_paired_test(tmp_path):
    data = tuple(evaluation(f"nq/{p}", reader="tiny-reader", num_passages=2, part_of="nq") for p in "ab")
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data, primary_groups=())
    f1 = {"nq/a": (QNORM, COSINE), "nq/b": (DOT[:20], COSINE[:20])}
    folder.add_trial(trained("qnorm"), lambda name, _: f1[name][0])
    folder.add_trial(trained("cosine"), lambda name, _: f1[name][1])
    row = gains(folder)["qnorm"]
    expected = np.mean([(a - b).mean() for a, b in f1.values()])
    assert (row["data_set"], row["f1_gain"], row["num_questions"]) == ("nq", pytest.approx(expected), 80)
    assert (row["f1_p"], row["f1_p_reason"], row["exact_match_p_reason"]) == (None, OF_PARTS, OF_PARTS)
    assert row["f1_low"] < row["f1_gain"] < row["f1_high"]


def test_what_is_missing_or_unlike_has_a_reason(folder):
    folder.add_trial(trained("cosine", seed=0), lambda *_: COSINE)
    folder.add_trial(trained("dot", seed=0), lambda *_: None)
    folder.add_trial(trained("dnorm", seed=1), lambda *_: QNORM)
    folder.plan_trial(trained("qnorm", seed=0), status=failed("out of memory"))
    found = gains(folder)
    assert {name: row["reason"] for name, row in found.items()} == {
        "dot": "answers are missing",
        "dnorm": "its seeds are not those of the baseline",
        "qnorm": "answers are missing",
    }
    assert {row["f1_gain"] for row in found.values()} == {None}
    table = TABLES["rag_gains"].build(collect(folder.store, folder.record()), TableOptions())
    assert len(table.holes) == 2
    assert "No gain in minilm-3l/finetune/dnorm/questions: its seeds are not those of the baseline." in table.notes
    with pytest.raises(SelectionError, match="baseline"):
        gains(folder, baseline="learnable")


def test_answers_that_never_differ_have_no_p(folder):
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity), lambda *_: COSINE)
    row = gains(folder)["qnorm"]
    assert (row["exact_match_gain"], row["exact_match_p"], row["f1_p"]) == (0.0, None, 1.0)
    assert (row["exact_match_p_reason"], row["f1_p_reason"]) == (NO_ANSWER_DIFFERS, None)


def test_each_measure_has_its_own_reason_and_the_notes_tell_it(folder):
    """Exact matches are the same, so that McNemar has nothing to test; F1 is a constant apart, without variance."""
    folder.add_trial(trained("cosine"), lambda *_: np.full(20, 0.25))
    folder.add_trial(trained("qnorm"), lambda *_: np.full(20, 0.5))
    row = gains(folder)["qnorm"]
    assert (row["exact_match_p_reason"], row["f1_p_reason"]) == (NO_ANSWER_DIFFERS, ALL_EQUAL)
    assert row["f1_low"] is None
    assert row["f1_reason"] is not None
    notes = TABLES["rag_gains"].build(collect(folder.store, folder.record()), TableOptions()).notes
    where = "minilm-3l/finetune/qnorm/questions"
    assert f"No EM p in {where}: {NO_ANSWER_DIFFERS}." in notes
    assert f"No F1 p in {where}: {ALL_EQUAL}." in notes
    assert f"No F1 interval in {where}: {row['f1_reason']}." in notes


def test_the_p_of_the_model_are_adjusted_among_themselves(folder):
    for seed in (0, 1, 2):
        for similarity, f1 in (("cosine", COSINE), ("qnorm", QNORM), ("dot", DOT)):
            noise = np.random.default_rng(seed).permutation(len(f1))[:9]
            folder.add_trial(trained(similarity, seed=seed), lambda *_, f1=f1, n=noise: np.delete(f1, n))
    rows = list(gains(folder, correction="benjamini-hochberg").values())
    columns = [[row[f"{m}_{name}"] for m in ("exact_match", "f1") for row in rows] for name in ("model_p", "p")]
    assert None not in columns[0]
    for ps, name in zip(columns, ("adjusted_model_p", "adjusted_p"), strict=True):
        adjusted = [row[f"{m}_{name}"] for m in ("exact_match", "f1") for row in rows]
        assert adjusted == pytest.approx(list(multipletests(ps, method="fdr_bh")[1]))
