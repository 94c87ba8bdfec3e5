"""Tables from collected rows: what they show, and what they say about themselves."""

import polars as pl
import pytest
from rendered import build

from results.layout import LeftOut
from results.tables import TABLES, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import (
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)


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
