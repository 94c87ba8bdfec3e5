"""Collect on real folders: what is joined, what is ignored, what is reported as missing."""

import json
import subprocess
import sys
from dataclasses import replace

import polars as pl
import pytest

from results.collect import collect
from results.layout import Status, norm_rows, trial_rows
from results.rows import read_rows, write_rows
from results.schemas import CELL_COLUMNS
from results.store import open_store
from search_spaces import identity
from search_spaces.identity import encoding_id, trial_id
from tests.results.builders import (
    FIXED,
    SweepFolder,
    evaluation,
    evaluation_spec,
    failed,
    probe,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

SCORES = two_queries((0.5, 0.3))


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "sweep"))


@pytest.fixture
def folder(store):
    return SweepFolder(
        store=store, evaluations=(evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    )


def test_a_whole_sweep_has_nothing_missing_and_every_row_its_cell(small_folder, small):
    folder, collected = small_folder, small
    assert collected.missing == ()
    assert collected.warnings == ()
    assert collected.trials["trial_id"].to_list() == [t.trial_id for t in folder.trials]
    assert collected.trials["title"].to_list() == [t.title for t in folder.trials]
    # 11 trained x 1 similarity + 3 untrained x 5 fixed ones, 2 data sets, 12 queries, 2 measures
    assert collected.per_query.height == (11 + 3 * len(FIXED)) * 2 * 12 * 2
    row = collected.per_query.filter(
        (pl.col("similarity") == "qnorm") & (pl.col("init_regime") == "random") & (pl.col("data_set") == "attack")
    ).row(0, named=True)
    assert {name: row[name] for name in CELL_COLUMNS} == {
        "kind": "train",
        "task": "contrastive",
        "training_data": "attack",
        "training_data_hash": "hash-of-attack-train",
        "num_pairs": 100,
        "family": "minilm",
        "layers": 3,
        "init_regime": "random",
        "similarity": "qnorm",
        "scale_mode": "fixed",
        "scale_value": 20.0,
        "seed": 0,
    }
    assert row["group"] == "in_domain"
    assert row["score_similarity"] == "qnorm"
    assert set(collected.per_query.filter("is_main")["measure"]) == {"nDCG@10"}


def test_a_data_set_in_two_groups_stands_in_both(store):
    folder = SweepFolder(
        store=store, evaluations=(evaluation("hotpotqa", "beir", "multi_hop"), evaluation("nq", "beir"))
    )
    folder.add_trial(trained("cosine"), lambda data_set, _: [0.25] if data_set == "nq" else [0.75])
    rows = collect(store, folder.record()).per_query.filter("is_main")
    found = sorted(rows.select("group", "data_set", "value").rows())
    assert found == [("beir", "hotpotqa", 0.75), ("beir", "nq", 0.25), ("multi_hop", "hotpotqa", 0.75)]


def test_leftovers_that_the_record_does_not_list_are_ignored(store, folder):
    kept = folder.add_trial(trained("cosine"), SCORES)
    record = folder.record()
    folder.add_trial(trained("dot"), SCORES)  # a trial of an older version of the sweep file
    attack = folder.evaluations[0]
    folder.write_evaluation(kept, replace(attack, data_hash="older-content"), "cosine", [0.0, 0.0])
    collected = collect(store, record)
    assert collected.trials["similarity"].to_list() == ["cosine"]
    assert set(collected.per_query["trial_id"]) == {kept}
    assert 0.0 not in collected.per_query["value"].to_list()


def test_other_score_similarities_are_collected_where_all_are_asked_for(store, folder):
    key = folder.add_trial(trained("cosine"), SCORES)
    folder.write_evaluation(key, folder.evaluations[0], "dot", [0.1, 0.2])
    assert set(collect(store, folder.record()).per_query["score_similarity"]) == {"cosine"}
    folder.plan_evaluations(key, score_similarities="all")
    collected = collect(store, folder.record())
    assert set(collected.per_query["score_similarity"]) == {"cosine", "dot"}
    assert set(collected.expected["score_similarity"]) == {"cosine"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "not started"),
        (failed("loss is NaN at step 7"), "failed: loss is NaN at step 7"),
        (
            Status(state="running", started_at="2026-01-02T03:04:05+00:00", attempt=2),
            "running since 2026-01-02T03:04:05+00:00, or interrupted (attempt 2)",
        ),
    ],
)
def test_a_missing_trial_is_reported_with_the_reason_of_its_status(store, folder, status, reason):
    folder.add_trial(trained("cosine"), SCORES)
    folder.plan_trial(trained("qnorm"), status=status)
    collected = collect(store, folder.record())
    assert [str(item) for item in collected.missing] == [f"minilm-3l/finetune/qnorm/s0: whole trial: {reason}"]
    assert set(collected.expected["similarity"]) == {"cosine", "qnorm"}  # its cell is known from its spec


def test_a_missing_trial_without_spec_is_reported_all_the_same(store, folder):
    folder.plan_trial(trained("qnorm"), with_spec=False)
    collected = collect(store, folder.record())
    assert [item.title for item in collected.missing] == ["minilm-3l/finetune/qnorm/s0"]
    assert collected.expected.is_empty()


def test_a_missing_evaluation_is_reported_for_each_similarity(store, folder):
    folder.add_trial(trained("qnorm"), lambda data_set, _: [0.5] if data_set == "attack" else None)
    folder.add_trial(untrained(), lambda data_set, scored_with: None if scored_with == "dot" else [0.5])
    missing = collect(store, folder.record()).missing
    reason = "recorded as finished, but its rows are not in the folder (run the sweep again)"
    assert {(item.title, item.what, item.reason) for item in missing} == {
        ("minilm-3l/finetune/qnorm/s0", "pydoc_small/test scored with qnorm", reason),
        ("minilm-3l/finetune/untrained", "attack/test scored with dot", reason),
        ("minilm-3l/finetune/untrained", "pydoc_small/test scored with dot", reason),
    }


def test_a_run_that_lost_a_query_is_a_hole(store, folder):
    folder.add_trial(trained("cosine"), SCORES)
    folder.add_trial(trained("qnorm"), lambda data_set, _: [0.9] if data_set == "attack" else [0.5, 0.5])
    missing = collect(store, folder.record()).missing
    assert [str(item) for item in missing] == [
        "minilm-3l/finetune/qnorm/s0: attack/test scored with qnorm: 1 of 2 queries have no value"
    ]


def test_a_missing_probe_is_reported(store, folder):
    folder.add_probe(probe(), {16: 0.1})
    folder.fail_probe(probe(init_regime="random", seed=0), "out of memory")
    collected = collect(store, folder.record())
    assert [str(item) for item in collected.missing] == [
        "probe minilm-3l/random/s0: whole probe: failed: out of memory"
    ]
    assert collected.probes["init_regime"].unique().to_list() == ["finetune"]


def test_mixed_package_versions_warn(store, folder):
    folder.add_trial(trained("cosine"), SCORES, packages={"torch": "2.13.0", "numpy": "2.1"})
    folder.add_trial(trained("dot"), SCORES, packages={"torch": "2.12.0", "numpy": "2.1"})
    collected = collect(store, folder.record())
    assert collected.warnings == (
        "the rows were made with different versions of torch: 2.12.0 in minilm-3l/finetune/dot/s0; "
        "2.13.0 in minilm-3l/finetune/cosine/s0",
    )


def test_evaluations_and_probes_of_other_package_versions_warn(store, folder):
    key = folder.add_trial(trained("cosine"), SCORES, packages={"torch": "2.13.0"})
    newer, newest = (json.dumps({"packages": {"torch": version}}) for version in ("2.14.0", "2.15.0"))
    folder.write_evaluation(key, folder.evaluations[1], "cosine", [0.2, 0.4], provenance_json=newer)
    folder.add_probe(probe(), {16: 0.1}, provenance_json=newest)
    assert collect(store, folder.record()).warnings == (
        "the rows were made with different versions of torch: 2.13.0 in minilm-3l/finetune/cosine/s0; "
        "2.14.0 in minilm-3l/finetune/cosine/s0 on pydoc_small scored with cosine; "
        "2.15.0 in probe minilm-3l/finetune",
    )


def _missing(store, folder):
    collected = collect(store, folder.record())
    return collected.per_query.height, [item.what for item in collected.missing]


def test_rows_of_an_older_evaluation_version_are_not_shown_but_missing(store, folder, monkeypatch):
    key = folder.add_trial(trained("cosine"), SCORES)
    monkeypatch.setattr(identity, "EVALUATION_VERSION", identity.EVALUATION_VERSION + 1)
    both = ["attack/test scored with cosine", "pydoc_small/test scored with cosine"]
    assert _missing(store, folder) == (0, both)
    folder.write_evaluation(key, folder.evaluations[0], "cosine", [0.1, 0.2])
    collected = collect(store, folder.record())
    assert collected.per_query.filter("is_main")["value"].to_list() == [0.1, 0.2]


def test_rows_of_other_measures_are_not_shown_but_missing(store, folder):
    key = folder.add_trial(trained("learnable"), SCORES)
    assert _missing(store, folder) == (8, [])
    folder.plan_evaluations(key, measures=("nDCG@10", "R@10"))
    assert _missing(store, folder) == (
        0,
        ["attack/test scored with learnable", "pydoc_small/test scored with learnable"],
    )


def test_two_trials_with_one_checkpoint_both_have_its_rows(store, folder):
    first, second = trained("cosine", weight_decay=0.0), trained("cosine", weight_decay=0.1)
    folder.add_trial(first, SCORES)
    key = folder.plan_trial(second)
    row = read_rows(store, trial_rows(trial_id(first)), "trials").to_pylist()[0]
    write_rows(store, trial_rows(key), "trials", [{**row, "trial_id": key}])
    collected = collect(store, folder.record())
    assert collected.missing == ()
    assert set(collected.per_query["trial_id"]) == {trial_id(first), key}


def test_norms_are_read_for_the_listed_checkpoints_only(store, folder):
    key = folder.add_trial(trained("cosine"), SCORES)
    attack = evaluation_spec(folder.evaluations[0])
    for text_id, checkpoint in (("q0", f"checkpoint-{key}"), ("q1", "checkpoint-other")):
        row = {
            "checkpoint_hash": checkpoint,
            "data_set": "attack",
            "data_hash": "hash-of-attack-test",
            "split": "test",
            "side": "query",
            "text_id": text_id,
            "norm": 2.5,
        }
        write_rows(store, norm_rows(encoding_id(checkpoint, attack)), "norms", [row])
    norms = collect(store, folder.record()).norms()
    assert norms.select("trial_id", "text_id", "norm").rows() == [(key, "q0", 2.5)]


def test_an_empty_folder_collects_to_empty_frames(store, folder):
    collected = collect(store, folder.record())
    assert collected.trials.is_empty()
    assert collected.per_query.is_empty()
    assert collected.probes.is_empty()
    assert collected.norms().is_empty()


def test_untrained_rows_are_scored_with_every_fixed_similarity(store, folder):
    folder.add_trial(untrained(), untrained_queries((0.4, 0.25)))
    expected = collect(store, folder.record()).expected
    assert set(expected["score_similarity"]) == set(FIXED)


@pytest.mark.parametrize("module", ["results.collect", "results.tables", "results.rendering"])
def test_reading_loads_no_framework(module):
    heavy = ("torch", "ray", "mlflow", "pandas", "scipy.stats", "scipy.optimize", "transformers")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
