"""Options of tables: each reaches every table whose numbers it changes, or the table says that it does not."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rendered import build
from scipy import stats

from results.selection import SelectionError
from results.tables import TABLES, TableOptions
from tests.results.builders import (
    evaluation,
    noisy_queries,
    trained,
    untrained,
    untrained_queries,
)


@pytest.mark.parametrize(
    ("name", "p"), [("gains", "adjusted_p"), ("significance", "adjusted_fixed_p"), ("winners", "adjusted_p")]
)
def test_the_correction_reaches_every_p(seeded, name, p):
    holm, other = (
        TABLES[name].build(seeded, TableOptions(correction=correction)) for correction in ("holm", "benjamini-hochberg")
    )
    assert (other.rows[p].drop_nulls() <= holm.rows[p].drop_nulls()).all()
    assert other.rows[p].sum() < holm.rows[p].sum()
    assert any("Benjamini-Hochberg" in note for note in other.notes)


def test_the_paired_test_and_the_post_hoc_test_are_named_and_used(seeded):
    found = {
        test: TABLES["significance_by_dataset"].build(seeded, TableOptions(paired_test=test))
        for test in ("t", "wilcoxon")
    }
    assert found["t"].rows["fixed_p"].to_list() != found["wilcoxon"].rows["fixed_p"].to_list()
    assert any("Wilcoxon's signed rank test" in note for note in found["wilcoxon"].notes)
    assert any("signed ranks of queries from several" in note for note in found["wilcoxon"].notes)
    ranks = {test: TABLES["ranks"].build(seeded, TableOptions(post_hoc=test)) for test in ("holm", "nemenyi")}
    assert ranks["holm"].rows["baseline_p"].to_list() != ranks["nemenyi"].rows["baseline_p"].to_list()
    assert any("Nemenyi's test" in note for note in ranks["nemenyi"].notes)


@pytest.mark.parametrize("name", ["gains", "significance", "seeds", "ranks"])
def test_a_choice_of_similarity_shows_the_same_numbers(seeded, name):
    whole = TABLES[name].build(seeded, TableOptions()).rows
    chosen = TABLES[name].build(seeded, TableOptions(where={"similarity": "qnorm"})).rows
    trained_rows = whole.filter(
        pl.col("similarity") == "qnorm", *([pl.col("kind") == "train"] if name == "gains" else [])
    )
    assert_frame_equal(chosen, trained_rows)


def test_pooled_training_data_have_gains_and_no_intervals(folder):
    for data in ("attack", "conala"):
        for similarity, scores in (("cosine", (0.4, 0.3)), ("qnorm", (0.5, 0.3))):
            folder.add_trial(trained(similarity, data=data), noisy_queries(scores))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    table = build(folder, "gains", pool=True)
    assert table.rows["gain_low"].null_count() == table.rows.height
    assert any(note.startswith("No interval in") and "pooled" in note for note in table.notes)
    apart = build(folder, "significance").rows
    assert apart["training_data"].unique(maintain_order=True).to_list() == ["attack", "conala"]
    assert apart["gain_low"].null_count() < apart.height


@pytest.mark.parametrize("name", ["gains", "significance", "significance_by_dataset"])
def test_an_unknown_baseline_names_the_nearest(seeded, name):
    with pytest.raises(SelectionError, match="did you mean 'cosine'"):
        TABLES[name].build(seeded, TableOptions(baseline="cosin"))


@pytest.mark.parametrize(
    ("sweep", "name"),
    [
        *[("seeded", name) for name in ("gains", "gains_by_dataset", "significance", "significance_by_dataset")],
        *[("seeded", name) for name in ("ranks", "seeds")],
        *[("small", name) for name in ("rag_gains", "magnitude_correlation")],
    ],
)
def test_every_table_that_names_a_baseline_follows_it(request, sweep, name):
    collected = request.getfixturevalue(sweep)
    cosine, dnorm = (TABLES[name].build(collected, TableOptions(baseline=b)) for b in ("cosine", "dnorm"))
    texts = [" ".join((t.title, *t.notes, *(c.header for c in t.columns))) for t in (cosine, dnorm)]
    assert "cosine" in texts[0]
    assert "dnorm" in texts[1]
    assert cosine.rows.to_dicts() != dnorm.rows.to_dicts()
    if "gain" in dnorm.rows.columns:
        trained_rows = dnorm.rows.filter(pl.col("kind") == "train") if "kind" in dnorm.rows.columns else dnorm.rows
        own = trained_rows.filter(pl.col("similarity") == "dnorm")["gain"].drop_nulls()
        assert (own == 0).all()  # or has no row


WITHOUT_A_PAIRED_TEST = ["gains", "gains_by_dataset", "winners", "ranks", "claims", "sts", "magnitude_correlation"]
WITHOUT_A_PAIRED_TEST += ["fisher_summary", "fisher_tau"]


@pytest.mark.parametrize("name", TABLES)
def test_correction_and_paired_test_reach_every_table_with_p_values_or_it_says_so(request, name):
    collected = request.getfixturevalue("small" if name in SMALL_TABLES else "seeded")
    usual = TABLES[name].build(collected, TableOptions())
    if not any(column.kind == "p" for column in usual.columns) and name not in WITHOUT_A_PAIRED_TEST:
        return
    chosen = TABLES[name].build(collected, TableOptions(correction="benjamini-hochberg", paired_test="permutation"))
    said = " ".join((*chosen.notes, *(column.header for column in chosen.columns)))
    assert "Holm" not in said.replace("Holm's step-down", "")  # of pairs of ranks, which --post-hoc chooses
    assert ("Benjamini-Hochberg" in said) == ("Holm" in " ".join((*usual.notes, *(c.header for c in usual.columns))))
    no_part = any("'permutation' has no part in this table" in note for note in chosen.notes)
    assert no_part == (name in WITHOUT_A_PAIRED_TEST)
    assert not any("has no part" in note for note in usual.notes)
    if not no_part:
        assert any("permutation test" in note for note in chosen.notes)


SMALL_TABLES = ("sts", "rag", "rag_gains", "train_score_matrix", "learned_gamma", "cohen_d", "magnitude_correlation")
SMALL_TABLES += ("predictions", "fisher_check", "fisher_summary", "fisher_tau", "fisher_published")


def test_the_paired_test_of_answers_is_the_one_asked_for(folder):
    """Six questions, of which qnorm answers each better by another amount."""
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    folder.evaluations = (evaluation("attack", "in_domain"), questions)
    better = [0.1, 0.2, 0.15, 0.4, 0.05, 0.3]
    for similarity, more in (("cosine", [0.0] * 6), ("qnorm", better)):
        scores = {"attack": [0.4, 0.6], "questions": [0.2 + value for value in more]}
        folder.add_trial(trained(similarity), lambda data_set, _, scores=scores: scores[data_set])
    found = {
        test: build(folder, "rag_gains", paired_test=test).rows["f1_p"][0] for test in ("t", "permutation", "wilcoxon")
    }
    assert found["t"] == pytest.approx(stats.ttest_1samp(better, 0).pvalue)
    assert found["wilcoxon"] == pytest.approx(stats.wilcoxon(better).pvalue)
    assert found["permutation"] == pytest.approx(2 / 2**6)  # all signs one way, and all the other
