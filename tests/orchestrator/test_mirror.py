"""What a run should hold according to the sweep folder, without any MLflow."""

from dataclasses import replace

import pytest
from mirrored_sweeps import (
    COSINE,
    DATA,
    ENCODER,
    RECORD,
    UNTRAINED,
    end_trial,
    evaluate,
    plan_evaluations,
    planned_evaluation,
    pooled_sweep,
    rows_key,
)

from orchestrator.labels import parameters, tags
from orchestrator.mirror import Mirror
from orchestrator.run_metrics import MAX_METRICS, STEP_COLUMNS, step_metric
from search_spaces import identity
from search_spaces.identity import trial_id
from search_spaces.specs import Execution, ScaleSpec, ValidationSpec


def test_a_group_that_lacks_a_data_set_has_no_mean(store):
    end_trial(store, COSINE)
    wider = replace(RECORD, evaluations=(*RECORD.evaluations, planned_evaluation("scifact", "both")))
    metrics = Mirror(store, wider).content(trial_id(COSINE)).metrics
    assert "nDCG_10/group.out" in metrics
    assert "nDCG_10/group.both" not in metrics


def test_scores_on_pools_are_told_apart_from_those_over_corpora(store):
    record = pooled_sweep(store)
    content = Mirror(store, record).content(trial_id(COSINE))
    found = {name: value for name, value in content.metrics.items() if name.startswith("nDCG")}
    assert found == pytest.approx(
        {
            "nDCG_10/group.in_domain": 0.6,
            "nDCG_10/group.both": 0.3,
            "nDCG_10/group.out.pool": 0.7,
            "nDCG_10/attack": 0.6,
            "nDCG_10/pydoc.test.full": 0.3,
            "nDCG_10/pydoc.test.pool": 0.7,
        }
    )
    over_corpora, on_pools = content.description.split("On pools, parts of each corpus")
    assert "| pydoc | both | nDCG@10 | 30.00 |" in over_corpora
    assert "70.00" not in over_corpora
    assert "| pydoc | out | nDCG@10 | 70.00 |" in on_pools
    assert "30.00" not in on_pools
    mixed = replace(record, evaluations=tuple(replace(e, groups=("all",)) for e in record.evaluations))
    assert not [name for name in Mirror(store, mixed).content(trial_id(COSINE)).metrics if "group." in name]


def test_rows_that_the_sweep_does_not_ask_for_are_not_mirrored(store, monkeypatch):
    end_trial(store, COSINE)
    evaluate(store, COSINE, "attack", [0.0, 0.1], precision="bf16")
    content = Mirror(store, RECORD).content(trial_id(COSINE))
    assert content.metrics["nDCG_10/attack"] == pytest.approx(0.6)
    assert rows_key(COSINE, "attack", precision="bf16") not in content.artifacts
    monkeypatch.setattr(identity, "EVALUATION_VERSION", identity.EVALUATION_VERSION + 1)
    content = Mirror(store, RECORD).content(trial_id(COSINE))
    assert not [name for name in (*content.metrics, *content.artifacts) if "nDCG" in name or "evaluations/" in name]


def test_a_run_has_under_50_metrics_however_many_data_sets(store):
    end_trial(store, COSINE)
    names = [f"set{number:02d}" for number in range(60)]
    for name in names:
        evaluate(store, COSINE, name, [0.5])
    plan_evaluations(store, COSINE, names)
    record = replace(RECORD, evaluations=tuple(planned_evaluation(name, "all") for name in names))
    metrics = Mirror(store, record).content(trial_id(COSINE)).metrics
    assert len(metrics) + len(STEP_COLUMNS) == MAX_METRICS
    assert "nDCG_10/group.all" in metrics


def test_every_new_number_of_a_step_is_drawn_under_a_chart_of_its_kind():
    charts = {}
    for column in STEP_COLUMNS:
        charts.setdefault(step_metric(column).partition("/")[0], []).append(column)
    assert charts["softmax"] == ["logit_std", "perplexity", "saturated_share", "score_margin", "negatives_per_query"]
    assert charts["speed"] == ["pairs_per_s", "tokens_per_s", "padding_share"]
    assert charts["validation"] == ["validation_score"]
    assert {name.split("_norm_")[1] for name in charts["norms"]} == {"mean", "std", "median"}
    assert "effective_temperature" in charts["train"]


def test_runs_can_be_filtered_by_what_a_training_is():
    settings = replace(COSINE.training, lora_rank=8, hard_negatives=2)
    spec = replace(
        COSINE,
        scale=ScaleSpec(mode="matched", value=20.0),
        encoder=replace(ENCODER, towers="separate"),
        training=settings,
        validation=ValidationSpec(data=replace(DATA, split="dev"), every_steps=5),
        execution=Execution(num_devices=2),
    )
    wanted = {
        "scale": "matched(20)",
        "scale_mode": "matched",
        "towers": "separate",
        "trained": "LoRA, rank 8",
        "hard_negatives": "2",
        "negatives_per_query": "95",
    }
    assert wanted.items() <= tags("key", spec).items()
    assert tags("key", COSINE)["trained"] == "all weights"
    assert "scale" not in tags("key", UNTRAINED)
    flat = parameters(spec)
    assert (flat["execution.num_devices"], flat["training.lora_rank"]) == ("2", "8")
    assert (flat["validation.data.name"], flat["validation.data.split"]) == ("attack", "dev")
    assert len(flat) < 70


def test_parameters_are_flat_and_short():
    flat = parameters(replace(COSINE, encoder=replace(ENCODER, query_prompt="p" * 900)))
    assert flat["training_data.name"] == "attack"
    assert flat["encoder.weights.content_hash"] == "w" * 64
    assert len(flat["encoder.query_prompt"]) == 500
    assert "encoder.document_prompt" not in flat
    assert "training_data.entry" not in flat
