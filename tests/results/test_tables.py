"""Tables from collected rows: what they show, what they say about themselves, and which holes they own up to."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from results.asked import asked_answers, asked_evaluations
from results.collect import collect
from results.layout import LeftOut
from results.missing_files import missing_files
from results.refusals import refusal
from results.rendering import FORMATS, export
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES, TableOptions
from results.tables.table import TableHasHolesError
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import (
    SweepFolder,
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    two_queries,
    untrained,
    untrained_noisy,
    untrained_queries,
)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "sweep"))


@pytest.fixture
def folder(store):
    evaluations = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    return SweepFolder(store=store, evaluations=evaluations)


def build(folder, name, **options):
    return TABLES[name].build(collect(folder.store, folder.record()), TableOptions(**options))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_shows_columns_that_its_rows_have_and_names_itself(small, name):
    table = TABLES[name].build(small, TableOptions())
    shown = {column.key for column in table.columns} | {column.upper for column in table.columns if column.upper}
    assert shown <= set(table.rows.columns)
    assert set(table.block) <= set(table.rows.columns)
    assert table.name == name
    assert table.notes
    assert table.holes == ()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_stands_a_failed_sweep(folder, name):
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    folder.evaluations += (evaluation("stsb", "sts", main_measure=SPEARMAN), questions)
    for similarity in ("cosine", "qnorm", "dnorm", "learnable"):
        folder.plan_trial(trained(similarity), status=failed("out of memory"))
    folder.plan_trial(untrained())
    folder.fail_probe(probe(), "out of memory")
    table = build(folder, name)
    # The groups have one data set each, and nothing took anything.
    assert table.rows.height > 0 or name in ("ranks", "cost")
    assert name in ("missing", "fisher_published") or any("out of memory" in hole for hole in table.holes)


def test_no_cell_of_the_gain_table_of_a_whole_sweep_is_empty(small):
    table = TABLES["gains"].build(small, TableOptions())
    of_new = "new_gain_low"  # the groups have one data set each, and say nothing of new ones
    keys = [column.key for column in table.columns if column.key != of_new]
    # Against itself the baseline has no interval.
    trained = table.rows.filter((pl.col("kind") == "train") & (pl.col("similarity") != "cosine"))
    assert trained.select(pl.col(keys).null_count()).row(0) == (0,) * len(keys)
    assert table.rows[of_new].null_count() == table.rows.height
    # An untrained checkpoint has no softmax, and no interval: it is no training.
    empty = {key for key in keys if table.rows.filter(pl.col("kind") == "untrained")[key].null_count()}
    assert empty == {key for key in keys if key.startswith("start_") or key.endswith("_low") or key == "mean_of_ratios"}


def test_the_gain_table_shows_the_untrained_checkpoint_first_in_each_block(small):
    rows = TABLES["gains"].build(small, TableOptions()).rows
    blocks = rows.group_by(["model", "init_regime", "group"], maintain_order=True).agg("label")
    assert blocks["label"][0].to_list() == ["untrained (cosine)", "cosine", "dot", "qnorm", "dnorm", "learnable"]
    assert {labels[0] for labels in blocks["label"]} == {"untrained (cosine)"}
    assert blocks["model"].unique(maintain_order=True).to_list() == ["minilm-3l", "smollm2-2l"]


def test_the_gain_table_names_its_formula_baseline_training_and_seeds(small):
    notes = " ".join(TABLES["gains"].build(small, TableOptions()).notes)
    for said in (
        "ratio_of_means",
        "against cosine",
        "Trained on attack",
        "fixed(20)",
        "One seed",
        "learnable starts at half",
    ):
        assert said in notes
    assert "out_of_domain: pydoc_small" in notes


def test_more_seeds_are_not_called_one(folder):
    for seed in (0, 1):
        folder.add_trial(trained("cosine", seed=seed), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    table = build(folder, "gains")
    assert not any("One seed" in note for note in table.notes)
    assert table.rows.filter(pl.col("kind") == "train")["num_seeds"].to_list() == [2, 2]


def test_missing_trials_are_holes_of_the_gain_table_and_missing_probes_are_not(folder):
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("qnorm"), status=failed("out of memory"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    folder.fail_probe(probe(), "killed")
    assert build(folder, "gains").holes == ("minilm-3l/finetune/qnorm/s0: whole trial: failed: out of memory",)


def test_a_hole_of_a_trial_that_was_not_chosen_is_none(folder):
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    folder.plan_trial(trained("cosine", family="bert"))
    assert len(build(folder, "gains").holes) == 1
    assert build(folder, "gains", where={"family": "minilm"}).holes == ()


def test_a_trial_without_known_cell_is_always_a_hole(folder):
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    folder.plan_trial(trained("qnorm"), with_spec=False)
    assert build(folder, "gains").holes == ("minilm-3l/finetune/qnorm/s0: whole trial: not started",)


def test_a_gain_that_no_further_run_would_bring_is_a_dash_with_its_reason_and_no_hole(folder):
    folder.add_trial(trained("cosine", seed=0), two_queries((0.5, 0.3)))
    folder.add_trial(trained("cosine", seed=1), two_queries((0.5, 0.3)))
    folder.add_trial(trained("qnorm", seed=0), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    table = build(folder, "gains")
    assert table.holes == ()
    for group in ("in_domain", "out_of_domain"):
        reason = "its seeds are not those of the baseline"
        assert f"Dash in minilm-3l/finetune/qnorm on {group}: {reason}." in table.notes


def test_holes_of_the_fisher_check(folder):
    folder.add_trial(trained("qnorm"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.plan_trial(trained("cosine"), status=failed("no side of the check"))
    folder.fail_probe(probe(), "killed")
    assert build(folder, "fisher_check").holes == (
        "minilm-3l/finetune/dnorm/s0: whole trial: failed: out of memory",
        "probe minilm-3l/finetune: whole probe: failed: killed",
    )


def test_a_cell_that_was_not_run_is_no_hole(folder):
    folder.add_trial(trained("qnorm"), two_queries((0.5, 0.3)))
    folder.add_probe(probe(), {16: -0.2})
    table = build(folder, "fisher_check")
    assert table.holes == ()
    assert any(note.startswith("Not run") for note in table.notes)


def test_several_training_data_sets_become_a_column_of_the_fisher_check(folder):
    for data in ("attack", "conala"):
        folder.add_trial(trained("qnorm", data=data), two_queries((0.5, 0.3)))
        folder.add_trial(trained("dnorm", data=data), two_queries((0.5, 0.2)))
        folder.add_probe(probe(data=data), {16: -0.2})
    assert "training data" in [column.header for column in build(folder, "fisher_check").columns]
    chosen = build(folder, "fisher_check", where={"training_data": "attack"})
    assert "training data" not in [column.header for column in chosen.columns]


def test_several_scales_become_a_column_and_the_matched_one_is_explained(folder):
    for mode in ("fixed", "matched"):
        for similarity, scores in (("cosine", (0.4, 0.3)), ("qnorm", (0.5, 0.4)), ("dnorm", (0.5, 0.2))):
            folder.add_trial(trained(similarity, scale_mode=mode), two_queries(scores))
        folder.add_probe(probe(scale_mode=mode), {16: -0.2} if mode == "fixed" else None)
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    for name in ("gains", "fisher_check"):
        table = build(folder, name)
        assert "scale" in [column.header for column in table.columns]
        assert "scale" in table.block
        assert table.rows["scale"].unique(maintain_order=True).to_list() == ["fixed(20)", "matched(20)"]
        assert any(note.startswith("Scale matched(20): as fixed(20) with scores divided") for note in table.notes)
        assert any("scale fixed(20) or matched(20)." in note for note in table.notes)
        chosen = build(folder, name, where={"scale_mode": "fixed"})
        assert "scale" not in [column.header for column in chosen.columns]
        assert not any("matched" in note for note in chosen.notes)
    assert build(folder, "gains").holes == ()
    assert build(folder, "fisher_check").holes == ("probe minilm-3l/finetune/matched(20): whole probe: not started",)


def test_details_are_left_away_where_there_is_little_room(small):
    intervals = ["new data sets", "gain (%) interval", "mean of ratios (%)", "its interval"]
    for name, more in (("gains", intervals), ("fisher_check", ["log10 kappa qnorm", "log10 kappa dnorm"])):
        table = TABLES[name].build(small, TableOptions())
        details = [column.header for column in table.columns if column.detail]
        assert details == [*more, "perplexity", "logit dev."]
        assert [c.header for c in table.without_details().columns] == [
            c.header for c in table.columns if c.header not in details
        ]


def test_the_missing_table_lists_what_is_missing_and_what_was_left_out(folder):
    folder.left_out = (LeftOut(title="smollm2/finetune", reason="'finetune' needs a retriever checkpoint"),)
    folder.plan_trial(trained("qnorm"), status=failed("out of memory"))
    table = build(folder, "missing")
    assert table.rows.drop("trial_ids").rows() == [
        ("failed", "minilm-3l/finetune/qnorm/s0", "whole trial", "failed: out of memory"),
        ("left out", "smollm2/finetune", "no such cell", "'finetune' needs a retriever checkpoint"),
    ]
    assert table.holes == ()


@pytest.mark.parametrize("name", [name for name in TABLES if name != "fisher_published"])
def test_mixed_versions_are_noted(folder, name):
    for similarity, version in (("cosine", "2.13.0"), ("qnorm", "2.12.0"), ("dnorm", "2.13.0")):
        folder.add_trial(trained(similarity), two_queries((0.5, 0.3)), packages={"torch": version})
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    assert any("different versions of torch" in note for note in build(folder, name).notes)


OF_GAINS = (
    "gains",
    "gains_by_dataset",
    "winners",
    "significance",
    "significance_by_dataset",
    "ranks",
    "seeds",
    "claims",
)


@pytest.mark.parametrize("name", OF_GAINS)
def test_unequal_terms_stand_under_every_table_of_gains(folder, name):
    folder.add_trial(trained("cosine"), noisy_queries((0.5, 0.3)))
    for seed in (0, 1):
        folder.add_trial(trained("qnorm", seed=seed), noisy_queries((0.5, 0.3), seed=seed))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    assert any(
        note.startswith("Not on equal terms: minilm-3l/finetune on attack: seeds") for note in build(folder, name).notes
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


@pytest.mark.parametrize("name", OF_GAINS)
def test_every_number_names_its_trials(seeded, name):
    rows = TABLES[name].build(seeded, TableOptions()).rows
    columns = [column for column in rows.columns if column.endswith("trial_ids")]
    assert columns
    known = set(seeded.trials["trial_id"])
    for column in columns:
        for text in rows[column].drop_nulls():
            assert set(text.split()) <= known
    if name != "claims":
        assert rows[columns[0]].null_count() == 0


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


@pytest.fixture
def holed(folder):
    """A sweep that lacks of everything one thing: a trial, evaluations, scored pairs, answers, norms, a probe."""
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    folder.evaluations += (evaluation("stsb", "sts", main_measure=SPEARMAN), questions)
    for similarity in ("cosine", "qnorm", "learnable"):
        folder.add_trial(trained(similarity), noisy_queries((0.5, 0.3)))
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    folder.fail_probe(probe(), "killed")
    collected = collect(folder.store, folder.record())
    for trial in collected.trials.filter(pl.col("kind") == "train").iter_rows(named=True):
        if trial["similarity"] == "qnorm":
            for asked in (*asked_evaluations(folder.store, trial), *asked_answers(folder.store, trial)):
                folder.store.delete(asked.key)
    return collect(folder.store, folder.record())


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("missing", "cost", "fisher_published")])
def test_every_table_with_holes_is_refused_in_every_format_and_has_dashes_with_a_footnote(holed, name):
    table = TABLES[name].build(holed, TableOptions())
    assert table.holes
    for output_format in FORMATS:
        with pytest.raises(TableHasHolesError) as error:
            export(table, output_format)
        assert all(hole in str(error.value) for hole in table.holes)
        [text, *_] = export(table, output_format, allow_missing=True).values()
        if output_format != "csv":
            assert "INCOMPLETE" in text
    if name != "ranks":  # here no group has two data sets, so there is nothing to rank over
        [markdown] = export(table, "md", allow_missing=True).values()
        assert "–" in "".join(line for line in markdown.splitlines() if line.startswith("|"))


def test_a_refusal_names_the_file_of_every_hole(holed):
    files = missing_files(holed)
    assert set(files) == {str(item) for item in holed.missing}
    for item in holed.missing:
        file = files[str(item)]
        assert not holed.store.exists(file)
        assert file.endswith({"trial": "trial.parquet", "probe": "probes.parquet"}.get(item.kind, ".parquet"))
    kinds = {item.kind for item in holed.missing}
    assert kinds == {"trial", "probe", "evaluation", "sts", "qa"}
    told = refusal({"gains": TABLES["gains"].build(holed, TableOptions()).holes}, holed).splitlines()
    assert told[0].startswith("table 'gains' is not whole, ")
    place = told.index("  failed: out of memory:")
    assert "dnorm/s0: whole trial (trials/" in told[place + 1]
    assert any("qnorm/s0: attack/test scored with qnorm (evaluations/" in line for line in told)


def test_what_several_tables_lack_is_told_once_and_much_of_one_cause_in_short(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "out_of_domain"),))
    for seed in range(30):
        folder.plan_trial(trained("qnorm", seed=seed), status=failed("disk is full"))
    collected = collect(folder.store, folder.record())
    holes = {name: tuple(str(item) for item in collected.missing) for name in ("gains", "winners", "seeds")}
    told = refusal(holes, collected).splitlines()
    assert told[0] == "3 tables are not whole, 30 missing (gains, winners, seeds):"
    assert told[1] == "  failed: disk is full:"
    assert len(told) == 1 + 1 + 10 + 1 + 1
    assert told[-2] == "    and 20 more, which table 'missing' lists"
