"""What `status` says of trainings, from real folders: finished, under way, by another version, not begun."""

import io
import json

import pytest
from rich.console import Console

from orchestrator.show import print_status
from orchestrator.training_facts import TrainingFacts, training_facts, training_notes
from results import layout
from results.layout import PlannedTrial, Status, SweepRecord
from results.rows import write_rows
from results.schemas import HISTORY
from results.store import open_store
from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    WeightsSpec,
    to_json,
)

ENCODER = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="path:weights", content_hash="w" * 64),
    layers=3,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=64,
    max_document_length=128,
)


def trial(task="contrastive"):
    return TrialSpec(
        kind="train",
        task=task,
        training_data=DataSpec(entry=DATA_SETS["attack"], split="train", content_hash="d", num_pairs=100),
        encoder=ENCODER,
        similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
        scale=ScaleSpec(mode="fixed", value=20.0),
        seed=0,
        training=TrainingSettings(steps=20, global_batch=8, learning_rate=1e-4, hard_negatives=2),
    )


def row(spec, **changes):
    about = {"kind": "train", "task": spec.task, "training_data": "attack", "family": "minilm"}
    return {
        "trial_id": "t",
        **about,
        "init_regime": "finetune",
        "checkpoint_hash": "c",
        "num_negatives": spec.num_negatives,
        "num_queries": 3456,
        "num_documents": 600,
        "num_random_negatives": None,
        "num_truncated_queries": 12,
        "num_truncated_documents": 0,
        "pairs_per_s": 41.26,
        "validation_score": 0.4567,
        "spec_json": to_json(spec),
        "provenance_json": "{}",
        **changes,
    }


def history(num_steps):
    numbers = {name: 1.0 for name in HISTORY.names if name not in ("trial_id", "step", "peak_memory_bytes")}
    return [
        {"trial_id": "t", "step": step, **numbers, "pairs_per_s": step, "validation_score": 0.3 if step == 2 else None}
        for step in range(1, num_steps + 1)
    ]


@pytest.fixture
def store(tmp_path):
    found = open_store(str(tmp_path / "sweep"))
    prefix = layout.trial_prefix("t")
    found.write(layout.spec_key(prefix), to_json(trial()).encode())
    status = Status(state="running", started_at="2026-01-01T00:00:00+00:00")
    found.write(layout.status_key(prefix), layout.to_bytes(status))
    return found


def shown(store):
    out = io.StringIO()
    record = SweepRecord(
        name="small",
        trials=(PlannedTrial(trial_id="t", title="title"),),
        probes=(),
        evaluations=(),
        left_out=(),
        primary_groups=(),
    )
    print_status(store, record, Console(file=out, width=120))
    return out.getvalue()


def test_a_finished_training_says_what_its_row_says(store):
    write_rows(store, layout.trial_rows("t"), "trials", [row(trial())])
    assert training_facts(store, "t") == TrainingFacts(num_negatives=23, pairs_per_s=41.26, validation_score=0.4567)
    text = shown(store)
    assert "negatives  pairs/s  validation" in text
    assert [line.split()[3:] for line in text.splitlines() if line.startswith("t ")] == [["23", "41.3", "45.67"]]
    cut = "12 of 3,456 training queries of attack are longer than 64 tokens and are cut (minilm)"
    assert f"note: {cut}" in text


def test_one_under_way_says_what_its_last_checkpoint_says(store):
    assert training_facts(store, "t") == TrainingFacts(num_negatives=23)
    write_rows(store, f"{layout.step_prefix('t', 3)}/history.parquet", "history", history(3))
    assert training_facts(store, "t") == TrainingFacts(num_negatives=23, pairs_per_s=3.0, validation_score=0.3)
    assert "note" not in shown(store)


def test_rows_of_another_version_do_not_hide_the_status(store):
    write_rows(store, layout.trial_rows("t"), "trials", [row(trial())])
    data = store.read(layout.trial_rows("t"))
    write_rows(store, layout.trial_rows("t"), "norms", [])
    assert store.read(layout.trial_rows("t")) != data
    assert training_facts(store, "t") == TrainingFacts()
    assert "title" in shown(store)


def test_training_notes_are_told_once_for_all_trials_that_cut_the_same():
    lines = training_notes([row(trial()), row(trial(), num_truncated_documents=600)])
    assert lines == (
        "12 of 3,456 training queries of attack are longer than 64 tokens and are cut (minilm)",
        "600 of 600 training documents of attack are longer than 128 tokens and are cut (minilm)",
    )
    (pairs,) = training_notes([row(trial("sts"), num_truncated_documents=3, num_truncated_queries=0)])
    assert pairs.startswith("3 of 600 second texts of attack are longer than 64 tokens")
    assert training_notes([row(trial(), num_truncated_queries=None, num_truncated_documents=None)]) == ()


def test_random_documents_among_the_hard_negatives_are_told_as_a_share():
    # 20 steps of 8 queries with 2 hard negatives each are 320.
    quiet = {"num_truncated_queries": 0}
    (line,) = training_notes([row(trial(), **quiet, num_random_negatives=number) for number in (80, 81)])
    assert line == ("25 % of the hard negatives of attack are random documents, since some queries have fewer than 2")
    (line,) = training_notes([row(trial(), **quiet, num_random_negatives=1)])
    assert line.startswith("less than 1 % of the hard negatives")
    assert training_notes([row(trial(), **quiet, num_random_negatives=none) for none in (0, None)]) == ()


def test_a_task_without_negatives_has_none():
    assert trial("sts").num_negatives is None
    assert json.loads(to_json(trial()))["training"]["hard_negatives"] == 2
