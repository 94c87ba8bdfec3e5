"""What runs are called, what went into them, and what they say first."""

import json
from dataclasses import replace

import pytest
from mirrored_sweeps import COSINE, DATA, MADE_WITH, PROBE, QNORM, UNTRAINED, planned_evaluation

from orchestrator.data_inputs import data_inputs
from orchestrator.descriptions import MAX_DESCRIPTION, run_description
from orchestrator.labels import labels, names, provenance_tags
from results.layout import Status
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.specs import DataSpec, ValidationSpec
from trainers.provenance import provenance

STARTED = Status(state="finished", started_at="2026-01-01T10:00:00+00:00")


def test_a_title_that_several_have_says_what_tells_them_apart():
    faster = replace(COSINE, training=replace(COSINE.training, learning_rate=1e-3, steps=24))
    other_data = replace(COSINE, training_data=replace(DATA, entry=DATA_SETS["pydoc"], content_hash="e" * 64))
    assert names({"a": COSINE, "b": QNORM}) == {"a": COSINE.title, "b": QNORM.title}
    assert names({"a": COSINE, "b": faster}) == {
        "a": f"{COSINE.title} learning_rate=0.0002 steps=12",
        "b": f"{COSINE.title} learning_rate=0.001 steps=24",
    }
    assert names({"a": COSINE, "b": other_data})["b"] == f"{COSINE.title} training_data=pydoc"


def test_a_run_says_its_groups_and_a_probe_has_none():
    assert labels("key", COSINE, groups=("in_domain", "beir")).tags["group"] == "in_domain, beir"
    assert "group" not in labels("key", PROBE, groups=("in_domain",)).tags
    assert labels("key", PROBE).tags["spec_hash"] == "key"


def test_a_run_says_what_it_was_made_with():
    assert provenance_tags(json.dumps(MADE_WITH)) == {
        "git_commit": "c1",
        "git_dirty": "false",
        "python": "3.11.2",
        "packages": "mlflow 3.17.2, torch 2.13.0",
        "hardware": "a GPU, 2 cores of a CPU, 16 GiB",
    }
    here = provenance_tags(provenance().to_json())
    assert {"python", "platform", "packages", "hardware"} <= set(here)
    assert all(0 < len(value) < 8000 for value in here.values())
    assert provenance_tags("{}") == {}


def test_inputs_name_split_content_and_source_with_its_revision():
    hub = DataSet(name="scifact", source="hf:BeIR/scifact@0123456789abcdef0123456789abcdef01234567", config="corpus")
    evaluated = DataSpec(entry=hub, split="test", content_hash="f" * 64, num_pairs=300)
    spec = replace(COSINE, validation=ValidationSpec(data=replace(DATA, split="dev"), every_steps=5))
    training, validation, evaluation = data_inputs(spec, [evaluated, evaluated])
    assert [item.context for item in (training, validation, evaluation)] == ["training", "validation", "evaluation"]
    assert (training.name, training.digest) == ("attack/train", "d" * 36)
    assert validation.name == "attack/dev"
    assert evaluation.source_type == "hugging_face"
    assert json.loads(evaluation.source) == {
        "path": "BeIR/scifact",
        "revision": "0123456789abcdef0123456789abcdef01234567",
        "config_name": "corpus",
        "split": "test",
    }
    assert json.loads(evaluation.profile) == {"num_pairs": 300, "content_hash": "f" * 64}
    assert [item.context for item in data_inputs(PROBE, ())] == ["training"]
    assert data_inputs(UNTRAINED, ()) == ()


def test_a_description_says_what_it_is_what_it_scored_and_where_its_checkpoint_lies():
    manifest = json.dumps({"uri": "/sweep/trials/x/checkpoint", "size_bytes": 12_345_678}).encode()
    text = run_description(QNORM, STARTED, {planned_evaluation("attack", "in_domain"): 0.6}, manifest)
    assert text.startswith("**qnorm** at scale fixed(20): minilm (3 layers), finetune, trained on attack for 12 steps")
    assert "| attack | in\\_domain | nDCG@10 | 60.00 |" in text or "| attack | in_domain | nDCG@10 | 60.00 |" in text
    assert "`/sweep/trials/x/checkpoint` (12.3 MB" in text
    assert run_description(UNTRAINED, STARTED, {}, None) == "minilm (3 layers), finetune before training."


@pytest.mark.parametrize("num_sets", [1, 500])
def test_a_description_fits_into_a_tag(num_sets):
    scores = {planned_evaluation(f"data_set_{number}", "a_group"): 0.5 for number in range(num_sets)}
    assert len(run_description(QNORM, STARTED, scores, None)) <= MAX_DESCRIPTION
    failed = replace(STARTED, state="failed", reason="why " * 5000)
    assert len(run_description(QNORM, failed, {}, None)) == MAX_DESCRIPTION
